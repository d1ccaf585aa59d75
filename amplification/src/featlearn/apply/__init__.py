"""What the command line does with models and files of yours; every command is a function that a notebook can call."""
