"""What autograd saves for the backward pass: rules, layers, segments."""
