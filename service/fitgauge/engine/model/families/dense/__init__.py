"""Dense decoders.

READERS: model_type -> function(Config) -> ModelSpec, of every family here."""

from fitgauge.engine.model.families.dense import custom_code, dialects, gpt2_era, hrm_text, minicpm3

READERS = {
    **custom_code.READERS,
    **dialects.READERS,
    **gpt2_era.READERS,
    **hrm_text.READERS,
    **minicpm3.READERS,
}
