"""Number formats, which tensors they apply to, and how a repository or a caller names them."""
