"""A decoder layer on a tape, as transformers' modelling code calls it: the source of every saved
tensor.

The layer's tensors decide which norms and projections it has, separate or fused, gated or not. What
tensors cannot tell (activation function, kind of norm, dropout) is in `traits.py`. Source:
transformers 5.23, models/*/modeling_*.py."""

from collections.abc import Callable

from fitgauge.engine.model.mixers import Attention, LatentAttention
from fitgauge.engine.model.spec import Kind
from fitgauge.engine.training.autograd.layers.attention import AttentionModules
from fitgauge.engine.training.autograd.layers.feed_forward import FeedForwardModules
from fitgauge.engine.training.autograd.operations import Value


class Layer(AttentionModules, FeedForwardModules):
    """Write one layer on a tape."""

    def forward(self, x: Value) -> Value:
        """Return the layer's output, or that of `unknown` where its tensors are not those of
        attention and an MLP."""
        mixers = self.unit.block.mixers
        usual = (
            len(mixers) == 1
            and isinstance(mixers[0], Attention)
            and len(self.linears(attention=True)) in (2, 4)
        )
        latent = (
            len(mixers) == 1
            and isinstance(mixers[0], LatentAttention)
            and bool(self.linears(attention=True))
        )
        fed = len(self.linears(attention=False)) in (2, 3) or any(
            p.kind is Kind.EXPERT for p in self.unit.parameters
        )
        y = self.layer(x) if (usual or latent) and fed else self.unknown(x)
        if self.returned is not None:
            self.tape.hold(self.returned)
        return y

    def mix(self, x: Value) -> Value:
        """Return the layer's attention, of either kind."""
        x, mixer = self.gathered(x), self.unit.block.mixers[0]
        if isinstance(mixer, LatentAttention):
            return self.latent_attention(x, mixer)
        return self.attention(x, mixer) if isinstance(mixer, Attention) else self.unknown(x)

    def layer(self, x: Value) -> Value:
        """Return attention and MLP around the residual stream: norms before, after or on both
        sides; one after the other or in parallel."""
        tape, names = self.tape, self.norms(inside=False)
        if self.traits.norm == "bare":
            names = ["attention_norm", "mlp_norm"]
        if self.traits.parallel or len(names) < 2:
            return self._parallel(x, names)
        if len(names) >= 4:
            before, after, before_mlp, after_mlp = names[:4]
        elif names[0].startswith("post"):
            before, after, before_mlp, after_mlp = "", names[0], "", names[1]
        else:
            before, after, before_mlp, after_mlp = names[0], "", names[1], ""
        x = tape.add(
            "attention.residual",
            x,
            self._branch(self._checkpointed_part(self.mix, self._normed(before, x)), after),
        )
        return tape.add(
            "mlp.residual",
            x,
            self._branch(
                self._checkpointed_part(self.feed_forward, self._normed(before_mlp, x)), after_mlp
            ),
        )

    def _parallel(self, x: Value, names: list[str]) -> Value:
        first = self._normed(names[0] if names else "", x)
        second = self.norm(names[1], x) if len(names) > 1 else first
        mixed = self._checkpointed_part(self.mix, first)
        fed = self._checkpointed_part(self.feed_forward, second)
        return self.tape.add("residual", self.tape.add("branches", mixed, fed), x)

    def _checkpointed_part(self, module: Callable[[Value], Value], x: Value) -> Value:
        """Return the output of a module for `x`, which a variable of the layer holds until then."""
        y = module(x)
        self.tape.hold(x)
        return y

    def _normed(self, name: str, x: Value) -> Value:
        return self.norm(name, x) if name else x

    def _branch(self, x: Value, after: str) -> Value:
        normed = self._normed(after, x)
        return self.tape.copy("branch.scaled", normed) if self.traits.scales_residual else normed
