"""What a layer, a stack's ends and a loss compute, written on a tape: a recipe a family of layers,
`choice.py` picks one.

`layer.py` is the decoder layer of most models, made of what `modules.py` writes and of what
`traits.py` says of its family; the others are what departs from it."""
