"""What several services share: parsing, model resolution, weights, responses."""
