"""What the world offers: accelerators, engines, models. Data files with a source per row, and
what turns words into one row."""
