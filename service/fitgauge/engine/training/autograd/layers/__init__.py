"""What a layer, a stack's ends and a loss compute, recorded on a tape: one layer model per family
of layers, which `choice.py` selects.

`layer.py` is the decoder layer of most models, made of the operations in `modules.py` and the
family's traits in `traits.py`; the other modules hold what departs from it."""
