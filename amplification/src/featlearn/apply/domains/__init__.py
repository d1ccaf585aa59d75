"""Domain generalisation on data of yours: leave one domain out, compare, fit, predict."""
