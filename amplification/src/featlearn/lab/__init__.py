"""Running, storing and judging: knows no machine learning."""
