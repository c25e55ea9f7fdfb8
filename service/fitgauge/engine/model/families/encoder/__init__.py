"""Encoders and encoder-decoders.

READERS: model_type -> function(Config) -> ModelSpec, of every family here."""

from fitgauge.engine.model.families.encoder import (
    clip,
    deberta,
    encoder_decoder,
    encoders,
    rotary_encoders,
    t5,
)

READERS = {
    **clip.READERS,
    **deberta.READERS,
    **encoder_decoder.READERS,
    **encoders.READERS,
    **rotary_encoders.READERS,
    **t5.READERS,
}
