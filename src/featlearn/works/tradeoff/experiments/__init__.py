"""What of this work is run."""
