"""A config under defaults and under what a family's code does whatever it says."""

from fitgauge.engine.model.config import Config


def test_defaults_count_where_a_key_is_left_out_and_not_where_it_is_null():
    config = Config({"hidden_size": 64, "head_dim": None}, "config.json: text_config")
    filled = config.with_defaults({"hidden_size": 4096, "head_dim": 128, "vocab_size": 100})
    assert filled.values == {"hidden_size": 64, "head_dim": None, "vocab_size": 100}
    assert filled.nested


def test_values_count_before_those_of_the_config_which_keeps_its_own():
    config = Config({"tie_word_embeddings": True})
    assert not config.with_values(tie_word_embeddings=False).flag("tie_word_embeddings")
    assert config.flag("tie_word_embeddings")
