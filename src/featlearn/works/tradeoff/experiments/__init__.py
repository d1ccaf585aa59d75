"""What of universality against label efficiency is run."""
