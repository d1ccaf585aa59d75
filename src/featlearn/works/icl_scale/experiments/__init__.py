"""What of in-context learning and model scale is run."""
