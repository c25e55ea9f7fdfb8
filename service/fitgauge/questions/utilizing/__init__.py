"""explain_utilization: how well cards are used."""
