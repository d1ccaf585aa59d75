"""Methods for other people's models."""
