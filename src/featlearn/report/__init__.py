"""Tables, plots and the site; pure functions of rows, printed numbers and verdicts."""
