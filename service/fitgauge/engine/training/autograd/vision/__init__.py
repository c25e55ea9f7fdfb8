"""Vision towers: what autograd keeps of images between their pixels and the language model's
embeddings.

Patches become features, layers like an encoder's run over each image, a projector gives
`image_tokens` of the sequence for each; they take the places of as many tokens, so that they are
part of `sequence_length`. A frozen tower keeps nothing; its projector keeps its input where it
is trained. `styles.py` says how families differ, `patches.py`, `layers.py` and `projectors.py`
write the three parts on tapes, `segments.py` puts them in line. Source: transformers 5.23,
models/<model_type>/modeling_*.py."""
