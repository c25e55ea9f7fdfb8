"""The settings nearest to an engine's defaults under which a workload fits: `settings: "auto"`.

Steps, the first that fits is taken: A the engine's defaults; B limits of the scheduler; C the
engine's share of the GPU, with B; D another layout over the GPUs, with A, then B, then C; E no
CUDA graphs, with B and C, layouts in the same order. The ladders are the engine's own
(`engine/serving/ladders.py`), the search knows no engine by name. A step is tried at its end
first; then every setting goes back towards its default as far as the workload still fits. What the
caller sent is never changed."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import structs

from fitgauge.engine.quantity import Term
from fitgauge.engine.serving.doubt import doubt
from fitgauge.engine.serving.fit import Verdict, best_verdict
from fitgauge.engine.serving.ladders import Degrees, Ladder
from fitgauge.engine.serving.registry import ENGINES
from fitgauge.engine.serving.workload import Workload
from fitgauge.engine.weights.sharding import ShardedWeights
from fitgauge.services.common.schemas import FitRequest
from fitgauge.services.common.unsupported import IMPOSSIBLE
from fitgauge.services.fit.query import Choice, FitEstimate, FitQuery, Settings
from fitgauge.services.fit.workload import base_workload, with_settings

MOST_ESTIMATES = 48
"""Estimates of one question at most."""

_FOR_SETTLING = 12
"""Of these, those that are left for settings to go back towards their defaults."""

_SHARE, _EAGER = "gpu_memory_utilization", "enforce_eager"

_SETTINGS = (_SHARE, _EAGER, "max_num_seqs", "max_batched_tokens", *Degrees._fields)

Trial = Callable[[FitRequest, Workload], FitEstimate | None]
"""Estimate a request that means a workload; None where the engine refuses it."""


class Launch(NamedTuple):
    """The engine's defaults for a question, not estimated yet."""

    query: FitQuery
    """The question."""
    request: FitRequest
    """The request, with degrees where the widest were refused."""
    workload: Workload
    """What it means."""
    weights: ShardedWeights
    """The sharded weights."""
    base: Workload | None = None
    """The workload before the engine's own defaults, where it is at hand."""


class AutoSettings:
    """The search of one question."""

    def __init__(self, launch: Launch, trial: Trial, default: FitEstimate | None = None) -> None:
        """launch: the question with the engine's defaults; default: that, estimated, where it
        is at hand."""
        self._launch = launch
        self._trial = trial
        self._row = ENGINES[launch.workload.engine]
        self._ladders = self._row.ladders
        self._open = {name for name in _SETTINGS if getattr(launch.query.request, name) is None}
        self._batch = [one for one in self._ladders.batch if one.setting in self._open]
        self._drops_graphs = self._ladders.without_graphs and _EAGER in self._open
        self._batch_ends: dict[int, Settings] = {}
        self._ends: dict[tuple[tuple[str, float], ...], Settings] = {}
        self._results: dict[tuple[tuple[str, float], ...], FitEstimate | None] = {}
        if default is not None:
            self._results[()] = default
        self._bests: dict[tuple[tuple[str, float], ...], Verdict] = {}
        self._workloads: dict[tuple[tuple[str, float], ...], Workload | None] = {}
        self._bases: dict[tuple[tuple[str, float], ...], Workload | None] = {}
        if launch.base is not None:
            self._bases[()] = launch.base
        self._without: dict[str, FitEstimate] = {}
        self._most = MOST_ESTIMATES - _FOR_SETTLING
        self.estimates = 1

    def search(self, *, settle: bool = True) -> FitEstimate:
        """Return the launch that is chosen; where nothing fits the likeliest, and where nothing
        is likely the least that the workload takes.

        settle: also then with settings back at their defaults where they help nothing."""
        fitting = next(self._fitting(), None)
        self._most = MOST_ESTIMATES
        if fitting is not None:
            return self._chosen(self._settled(fitting, lambda judged: judged.fits))
        hopeful = [one for one in self._layouts() if self._best(one) != "does_not_fit"]
        tried = [one for one in ({}, *map(self._end, hopeful)) if self._of(one)]
        best = max(tried, key=lambda one: self._sure(one).probability)
        likeliest = self._sure(best)
        if likeliest.verdict == "does_not_fit":
            best = self._least()
        if not settle:
            return self._chosen(best)
        if likeliest.verdict == "does_not_fit":
            least = self._sure(best).short_bytes
            return self._chosen(self._settled(best, lambda one: one.short_bytes <= least))
        return self._chosen(
            self._settled(best, lambda one: one.probability >= likeliest.probability)
        )

    def _least(self) -> Settings:
        """Return the end of the layout that requires least; layouts whose weights alone are more
        are not estimated."""
        least: Settings | None = None
        for layout in self._layouts():
            if least is not None and self._weights_bytes(layout) > self._sure(least).required:
                continue
            end = self._end(layout)
            judged = self._of(end)
            if judged is not None and (
                least is None or judged.required < self._sure(least).required
            ):
                least = end
        return least or {}

    def can_fit(self) -> bool:
        """Return whether any layout fits at the ends of all ladders."""
        return any(
            self._best(layout) == "fits" and self._fits(self._end(layout))
            for layout in self._layouts()
        )

    def is_refused(self) -> bool:
        """Return whether the engine refuses the default layout with the settings at the ends of
        their ladders, as far as its weights let it be tried."""
        return self._best({}) == "fits" and self.end() is None

    def end(self) -> FitEstimate | None:
        """Return the least that the default layout takes; None where the engine refuses it."""
        return self._of(self._end({}))

    def is_hopeless(self) -> bool:
        """Return whether in every layout the weights alone exceed what the engine may use, so that
        none is even `tight`."""
        return self._sure({}).verdict == "does_not_fit" and all(
            self._best(layout) == "does_not_fit"
            or (self._best(layout) == "tight" and not self._is_possible(self._end(layout)))
            for layout in self._layouts()
        )

    def ends(self, *, others: bool = True) -> list[FitEstimate]:
        """Return what the workload takes at the ends of all ladders, by layout, the default one
        first; of that alone without `others`. Left out are layouts whose weights alone exceed what
        the engine may use, so that they hold nothing."""
        layouts = self._layouts() if others else ({},)
        ends = (
            self._of(self._end(layout))
            for layout in layouts
            if not layout or self._best(layout) != "does_not_fit"
        )
        return [end for end in ends if end is not None]

    def _fitting(self) -> Iterator[Settings]:
        """Yield the ends of the steps that fit, in their order."""
        plain: Settings = {}
        layouts = [layout for layout in self._layouts() if self._best(layout) == "fits"]
        if plain in layouts and self._fits(self._end(plain)):
            yield from filter(self._fits, (self._batch_end(plain), self._share_end(plain)))
        others = [layout for layout in layouts if layout and self._fits(self._end(layout))]
        for step in (dict, self._batch_end, self._share_end):
            yield from filter(self._fits, (step(layout) for layout in others))
        yield from filter(self._fits, map(self._end, layouts))

    def _layouts(self) -> Iterator[Settings]:
        """Yield the default layout as no change, then the others that the caller leaves open."""
        yield {}
        query, workload = self._launch.query, self._launch.workload
        if self._ladders.layouts is None or query.count == 1:
            return
        for degrees in self._ladders.layouts(query.spec, query.count):
            fields = degrees._asdict()
            if fields == {name: getattr(workload, name) for name in Degrees._fields}:
                continue
            if all(
                name in self._open or getattr(query.request, name) == value
                for name, value in fields.items()
            ):
                yield fields

    def _best(self, layout: Settings) -> Verdict:
        """Return the best verdict of a layout, by its weights and the largest share of the GPU."""
        key = tuple(layout.items())
        if key not in self._bests:
            self._bests[key] = self._best_by_weights(layout)
        return self._bests[key]

    def _best_by_weights(self, layout: Settings) -> Verdict:
        query, workload = self._launch.query, self._workload(layout)
        loaded = self._loaded(layout)
        if workload is None or not loaded:
            return "fits"
        share = self._ladders.share
        if share is not None and _SHARE in self._open:
            highest = max(workload.gpu_memory_utilization, share.highest)
            workload = structs.replace(workload, gpu_memory_utilization=highest)
        budget = self._row.budget(query.accelerator, workload)
        return best_verdict(loaded, budget, doubt(query.profile, query.accelerator))

    def _weights_bytes(self, layout: Settings) -> int:
        """Return the weights of the fullest stage of a layout [bytes]; 0 where they are not
        estimated by themselves."""
        sizes = [
            sum([term.bytes for term in terms if term.name == "weights"])
            for terms in self._loaded(layout)
        ]
        return max(sizes, default=0)

    def _loaded(self, layout: Settings) -> tuple[tuple[Term, ...], ...]:
        """Return what every stage of a layout loads; nothing where that is not estimated by
        itself, or refused."""
        query, split, workload = self._launch.query, self._row.split, self._workload(layout)
        if split is None or workload is None or query.match.unlike:
            return ()
        if workload.offloads and not split.supports_offload:
            return ()
        try:
            return split.loaded(query.spec, self._launch.weights, workload, query.accelerator)
        except IMPOSSIBLE:
            return ()

    def _batch_end(self, layout: Settings) -> Settings:
        """Return step B's end: all limits of the scheduler at their lowest."""
        replicas = int(layout.get("data_parallel", self._launch.workload.data_parallel))
        if replicas not in self._batch_ends:
            lowest: dict[str, int | float | bool] = {}
            for ladder in self._batch:
                values = self._values(ladder, {**layout, **lowest})
                if values:
                    lowest[ladder.setting] = values[-1]
            self._batch_ends[replicas] = lowest
        return {**layout, **self._batch_ends[replicas]}

    def _share_end(self, layout: Settings) -> Settings:
        """Return step C's end: B's with the largest share of the GPU that leaves room for what
        lies outside."""
        return self._with_share(self._batch_end(layout))

    def _end(self, layout: Settings) -> Settings:
        """Return the least that a layout takes: step E's end, or C's."""
        key = tuple(layout.items())
        if key in self._ends:
            return self._ends[key]
        without_graphs = {_EAGER: True} if self._drops_graphs else {}
        end = self._with_share({**self._batch_end(layout), **without_graphs})
        if self.estimates < self._most:  # else its share may be missing
            self._ends[key] = end
        return end

    def _with_share(self, changed: Settings) -> Settings:
        shares = self._shares(changed)
        return {**changed, _SHARE: shares[-1]} if shares else changed

    def _shares(self, changed: Settings) -> tuple[float, ...]:
        """Return the shares to try with these settings, nearest to the default first: higher
        ones as far as the rest suffices for what lies outside; lower ones where it does not."""
        share = self._ladders.share
        if (
            share is None
            or _SHARE not in self._open
            or self._launch.workload.kv_cache_memory_bytes is not None
        ):
            return ()
        if not self._row.budget_is_device_share:
            workload = self._workload(changed)
            return share.higher(workload.gpu_memory_utilization) if workload else ()
        judged = self._of(changed)
        if judged is None:
            return ()
        default = judged.workload.gpu_memory_utilization
        if judged.rest_fits(default):
            higher = share.higher(default)
            while higher and not judged.rest_fits(higher[-1]):
                higher = higher[:-1]
            return higher
        lower = share.lower(default)
        fitting = (at for at, value in enumerate(lower, 1) if judged.rest_fits(value))
        return lower[: next(fitting, None)]

    def _settled(self, changed: Settings, acceptable: Callable[[FitEstimate], bool]) -> Settings:
        """Return the settings with each as near to its default as is acceptable, those that cost
        most first."""
        for setting in (_EAGER, _SHARE, *(one.setting for one in reversed(self._batch))):
            if setting not in changed:
                continue
            others = {name: value for name, value in changed.items() if name != setting}
            default = self._of(others)
            if default is not None and acceptable(default):
                changed = others
                continue
            if default is not None:
                self._without[setting] = default
            if setting != _EAGER:
                changed = {
                    **others,
                    setting: self._nearest(setting, others, changed[setting], acceptable),
                }
        return changed

    def _nearest(
        self,
        setting: str,
        others: Settings,
        value: float,
        acceptable: Callable[[FitEstimate], bool],
    ) -> float:
        """Return the value nearest to the default that is acceptable, at worst `value`, which
        is."""
        if setting == _SHARE:
            values: tuple[float, ...] = self._shares(others)
        else:
            ladder = next(one for one in self._batch if one.setting == setting)
            values = self._values(ladder, others)
        if value not in values:
            return value
        low, high = 0, values.index(value)
        while low < high:
            middle = (low + high) // 2
            judged = self._of({**others, setting: values[middle]})
            if judged is not None and acceptable(judged):
                high = middle
            else:
                low = middle + 1
        return values[high]

    def _values(self, ladder: Ladder, changed: Settings) -> tuple[int, ...]:
        """Return the values of a ladder, with other settings as in `changed`."""
        workload, query = self._workload(changed), self._launch.query
        return ladder.values(workload, query.spec, query.accelerator) if workload else ()

    def _workload(self, changed: Settings) -> Workload | None:
        """Return the workload with these settings; None where the engine refuses it."""
        if not changed:
            return self._launch.workload
        key = tuple(sorted(changed.items()))
        if key not in self._workloads:
            layout = {name: changed[name] for name in Degrees._fields if name in changed}
            others = {name: changed[name] for name in changed if name not in layout}
            base, query = self._base(layout), self._launch.query
            self._workloads[key] = base and self._row.with_defaults(
                with_settings(base, others, self._launch.request), query.spec, query.accelerator
            )
        return self._workloads[key]

    def _base(self, layout: Settings) -> Workload | None:
        """Return the workload of a layout, with all other settings as the request has them and
        before the engine's defaults; None where the engine refuses it."""
        key = tuple(layout.items())
        if key not in self._bases:
            query = self._launch.query
            request = structs.replace(self._launch.request, **layout)
            try:
                self._bases[key] = base_workload(
                    request, query.spec, query.accelerator, query.count, query.profile
                )
            except IMPOSSIBLE:
                self._bases[key] = None
        return self._bases[key]

    def _fits(self, changed: Settings) -> bool:
        judged = self._of(changed)
        return judged is not None and judged.fits

    def _is_possible(self, changed: Settings) -> bool:
        judged = self._of(changed)
        return judged is not None and judged.verdict != "does_not_fit"

    def _sure(self, changed: Settings) -> FitEstimate:
        judged = self._of(changed)
        assert judged is not None
        return judged

    def _of(self, changed: Settings) -> FitEstimate | None:
        """Return the launch with these settings, judged; None where the engine refuses it or no
        estimate is left."""
        key = tuple(sorted(changed.items()))
        if key not in self._results:
            if _SHARE in changed and self._row.budget_is_device_share:
                others = {name: value for name, value in changed.items() if name != _SHARE}
                base = self._of(others)
                self._results[key] = base and base.at_share(changed[_SHARE])
            elif self.estimates == self._most:
                return None
            else:
                self.estimates += 1
                workload = self._workload(changed)
                request = structs.replace(self._launch.request, **changed)
                self._results[key] = self._trial(request, workload) if workload else None
        return self._results[key]

    def _chosen(self, changed: Settings) -> FitEstimate:
        choice = Choice(self._sure({}), changed, self._without, self.estimates)
        return structs.replace(self._sure(changed), choice=choice)
