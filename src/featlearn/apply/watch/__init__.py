"""What a network learns while it trains, measured beside a loop that stays as it is."""
