"""Tables, plots and the site; pure functions of rows, reported numbers and verdicts."""
