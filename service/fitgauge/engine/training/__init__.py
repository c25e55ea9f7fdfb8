"""Training: what one rank holds, by what autograd saves, what the optimizer keeps and how a
framework lays it out."""
