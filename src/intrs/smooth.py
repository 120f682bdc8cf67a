"""The smoothed classifier g: Algorithm 1 (certify) and Algorithm 2 (predict) of the paper, in its symbols.

Each algorithm is a sampling step, which gives `Votes`, and a judgement of those votes, which needs no sampling: votes
that were kept can be judged again under another alpha or bound.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Protocol

from intrs.adaptive import GIVE_UP, Stages, next_look
from intrs.certificate import Abstained, Certified, Certifier, parse_alpha, prediction_passes
from intrs.errors import DataError, IntrsError, ModelError, SettingsError
from intrs.exact import Count, Number, parse_count, parse_seed, shown
from intrs.network import Network
from intrs.noise import Noise
from intrs.progress import Progress
from intrs.request import Certify, Predict, parse_parts
from intrs.votes import SELECTION, Classifier, Samples, Votes, check_image, content_index, count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from intrs.adaptive import Rule
    from intrs.certificate import Bound
    from intrs.noise import Kind
    from intrs.progress import OnProgress
    from intrs.request import Form


class Indexed(Protocol):
    """Images with an index each, such as `intrs.Images`."""

    @property
    def images(self) -> Any:
        """One image after another."""

    @property
    def indices(self) -> Any:
        """Their indices."""


@dataclass(frozen=True)
class Predicted:
    """Algorithm 2 returned a class: wrong with probability at most alpha."""

    label: int
    votes: int
    n: int
    alpha: Fraction

    def _repr_html_(self) -> str:
        return f"<p>class <b>{self.label}</b>: {self.votes:,} of {self.n:,} votes, alpha {float(self.alpha):g}</p>"


@dataclass(frozen=True, init=False)
class Smooth:
    """g(x) = the class that the base classifier gives most often to x + noise.

    base is an integer network, or any callable that takes integer images (n, *image.shape) and returns labels or
    scores; under continuous noise it gets float32 images (`intrs.float_engine` makes such callables). A callable must
    be a function of one image at a time: if its answer for an image depends on the rest of the batch (BatchNorm in
    training mode, dynamic quantisation over the batch), the theorem does not apply.

    The noise is given by sigma, a fraction of the pixel range (0.25, "0.25", "1/4" and Fraction(1, 4) are alike), and
    is the discrete Gaussian unless its law is named; or as a `Noise`. The seed has 256 bits; without one it is drawn
    from the operating system.
    """

    base: Network | Classifier
    noise: Noise
    seed: int
    bound: Bound
    form: Form
    classes: int | None
    threads: int
    kernels: str

    def __init__(
        self,
        base: Network | Classifier,
        noise: Noise | Kind | None = None,
        *,
        sigma: Number | None = None,
        seed: str | int | None = None,
        bound: Bound = Certify.bound,
        form: Form = Certify.form,
        classes: int | None = None,
        threads: Count = 0,
        kernels: str = "",
    ) -> None:
        if not callable(base) and not isinstance(base, Network):
            got = type(base).__name__
            raise ModelError(f"expected a Network or a callable that classifies images, got {got}; load a file first")
        if _is_module(base):
            raise ModelError(
                "a PyTorch module takes tensors, and intrs calls its classifier with NumPy arrays (batch, height, "
                "width, channels): pass a function that converts them, or intrs.quantize the module"
            )
        classes = None if classes is None else parse_count(classes, "classes")
        if isinstance(base, Network) and classes not in (None, base.classes):
            raise SettingsError(f"classes = {classes}, but the network has {base.classes}; leave classes out")
        settle = object.__setattr__
        settle(self, "base", base)
        settle(self, "noise", _noise(noise, sigma))
        settle(self, "seed", parse_seed(seed))
        settle(self, "bound", bound)
        settle(self, "form", form)
        settle(self, "classes", base.classes if isinstance(base, Network) else classes)
        settle(self, "threads", parse_count(threads, "threads", 0))
        settle(self, "kernels", kernels)
        if not self.noise.is_none:
            self.certifier(1, Certify.n, Certify.alpha)  # refuses a bound and a form that do not fit the noise
        if isinstance(base, Network) and not self.noise.on_integers:
            raise SettingsError("continuous noise is not for integer networks; intrs.float_engine runs their files")

    def certify(
        self,
        image: NDArray[Any],
        *,
        n0: Count = Certify.n0,
        n: Count = Certify.n,
        alpha: Number = Certify.alpha,
        index: int | None = None,
        radii: Sequence[Number] = (),
        precision: Number | None = None,
        give_up: Number = GIVE_UP,
        progress: OnProgress | None = None,
    ) -> Certified | Abstained:
        """Algorithm 1: a class and a radius that hold with probability at least 1 - alpha, or an abstention.

        index addresses the noise; without it, the image's own pixels do, so every image gets noise of its own. With
        `radii`, only as many samples are taken as it needs to decide for each whether it is certified; with
        `precision` ("1%"), until the radius is that close to what n samples could certify. Then n is the most samples
        that are taken, and the outcome says how many were. give_up: see docs/adaptive.md, section 5.
        """
        pixels, n0, n = check_image(image), parse_count(n0, "n0"), parse_count(n, "n")
        certifier = self.certifier(pixels.size, n, alpha)  # refuses wrong settings before anything is sampled
        at = content_index(pixels) if index is None else index
        radii = parse_parts(radii, "radii")
        if radii or precision is not None:
            stages = Stages.of(n, radii, precision, give_up)
            stages.rules(certifier)  # refuses too
            return self._certify_adaptively(pixels, at, n0, certifier, stages, progress)
        selection = self.sample(pixels, self.samples(at, SELECTION, n0))  # lines 1, 2
        estimation = self.sample(pixels, self.samples(at, 0, n), progress)  # lines 3, 4
        return judge(selection, estimation, replace(certifier, classes=len(estimation.counts)))  # lines 5-9

    def certify_all(
        self, images: Indexed | Iterable[NDArray[Any]], *, indices: Iterable[int] | None = None, **settings: Any
    ) -> Iterator[Certified | Abstained]:
        """`certify` for one image after another; settings are those of `certify`.

        The noise of each image is addressed as in `certify`, or by `indices`. The images of a data set have indices of
        their own, which give the same votes as `intrs.certify` on it.
        """
        for index, image in self._indexed(images, indices):
            yield self.certify(image, index=index, **settings)

    def predict(
        self,
        image: NDArray[Any],
        *,
        n: Count = Predict.n,
        alpha: Number = Predict.alpha,
        index: int | None = None,
        progress: OnProgress | None = None,
    ) -> Predicted | Abstained:
        """Algorithm 2: g's class, wrong with probability at most alpha, or an abstention. index: as in `certify`."""
        pixels, n, level = check_image(image), parse_count(n, "n"), parse_alpha(alpha)
        at = content_index(pixels) if index is None else index
        return judge_prediction(self.sample(pixels, self.samples(at, 0, n), progress), pixels.size, level)

    def predict_all(
        self, images: Indexed | Iterable[NDArray[Any]], *, indices: Iterable[int] | None = None, **settings: Any
    ) -> Iterator[Predicted | Abstained]:
        """`predict` for one image after another, as `certify_all` does."""
        for index, image in self._indexed(images, indices):
            yield self.predict(image, index=index, **settings)

    @staticmethod
    def _indexed(
        images: Indexed | Iterable[NDArray[Any]], indices: Iterable[int] | None
    ) -> Iterator[tuple[int | None, NDArray[Any]]]:
        data: Any = images if hasattr(images, "images") else None
        known = data.indices if data is not None and indices is None else indices
        pixels: Any = images if data is None else data.images
        if not isinstance(pixels, Iterable):
            raise DataError(f"expected images one after another, got {type(pixels).__name__}")
        if known is not None and not isinstance(known, Iterable):
            raise SettingsError(f"indices: expected one whole number per image, got {shown(known)}")
        places = iter(known) if known is not None else repeat(None)
        for image in pixels:
            index = next(places, False)
            if index is False:
                raise SettingsError("there are fewer indices than images")
            yield index, image

    def samples(self, index: int, first: int, count: int) -> Samples:
        """Samples first .. first + count - 1 of the image with this index, under this seed."""
        return Samples(self.seed, index, first, count)

    def sample(self, image: NDArray[Any], samples: Samples, progress: OnProgress | None = None) -> Votes:
        """Votes over these samples."""
        return count(
            self.base, image, self.noise, samples,
            classes=self.classes, threads=self.threads, kernels=self.kernels, progress=progress,
        )  # fmt: skip

    def sample_until(
        self,
        image: NDArray[Any],
        index: int,
        label: int,
        rules: Sequence[Rule],
        *,
        begin: Votes | None = None,
        progress: OnProgress | None = None,
    ) -> Votes:
        """Votes over samples 0, 1, ... until each rule in turn has what it needs to judge the class `label`.

        They are the first of the votes that a fixed number of samples would give. begin: votes at which all rules but
        the last have stopped.
        """
        stage = len(rules) - 1 if begin else 0
        return self.sample_on(image, index, label, rules, begin, stage, progress=progress)[0]

    def sample_on(
        self,
        image: NDArray[Any],
        index: int,
        label: int,
        rules: Sequence[Rule],
        found: Votes | None,
        stage: int,
        most: int | None = None,
        progress: OnProgress | None = None,
    ) -> tuple[Votes, int, bool]:
        """The same, from the votes found so far at this stage on, and at most until a look after `most` more samples.

        Returns all votes from sample 0 on, the stage that goes on, and whether every rule has stopped.
        """
        cap, begin = rules[-1].caps[-1], found.count if found else 0
        stage, until = next_look(rules, stage, label, found.counts if found else None)
        while until is not None and (most is None or found is None or found.count - begin < most):
            done = found.count if found else 0
            more = self.sample(image, self.samples(index, done, until - done), _of(cap, done, progress))
            found = found + more if found else more
            stage, until = next_look(rules, stage, label, found.counts)
        assert found is not None
        return found, stage, until is None

    def _certify_adaptively(
        self,
        image: NDArray[Any],
        index: int,
        n0: int,
        certifier: Certifier,
        stages: Stages,
        progress: OnProgress | None,
    ) -> Certified | Abstained:
        selection = self.sample(image, self.samples(index, SELECTION, n0))
        rules = stages.rules(replace(certifier, classes=len(selection.counts)))
        estimation = self.sample_until(image, index, selection.top, rules, progress=progress)
        return judge_adaptive(selection, estimation, rules[-1])

    def certifier(self, dimension: int, n: int, alpha: Number) -> Certifier:
        """What turns votes into radii under these settings."""
        return Certifier(self.noise, dimension, n, parse_alpha(alpha), self.bound, self.form, self.classes or 2)


def _noise(noise: Noise | Kind | None, sigma: Number | None) -> Noise:
    """The noise, however it was said."""
    if isinstance(noise, Noise):
        if sigma is not None:
            raise SettingsError("the noise has a sigma of its own; pass the one or the other")
        return noise
    if noise is not None and not isinstance(noise, str):
        raise SettingsError(
            f"noise: expected a Noise or the name of a law, got {type(noise).__name__}; for sigma pass sigma="
        )
    if sigma is None:
        raise SettingsError("how much noise? Pass sigma, a fraction of the pixel range, such as sigma=0.25")
    return Noise.of(noise or Certify.noise, sigma)


def _of(total: int, before: int, progress: OnProgress | None) -> OnProgress | None:
    """A report on a part of the samples, as one on all of them."""
    return progress and (lambda part: progress(Progress(before + part.done, total)))


def judge(selection: Votes, estimation: Votes, certifier: Certifier) -> Certified | Abstained:
    """Lines 2 and 5 to 9 of Algorithm 1, from votes alone."""
    _check_apart(selection, estimation)
    if (estimation.noise, estimation.count) != (certifier.noise, certifier.n):
        raise IntrsError(
            f"{estimation.count} votes under {estimation.noise} do not fit a certifier of {certifier.n} votes "
            f"under {certifier.noise}; make one for these votes"
        )
    c_a = selection.top
    return certifier.judge(c_a, estimation.counts)


def judge_adaptive(selection: Votes, estimation: Votes, rule: Rule) -> Certified | Abstained:
    """The same where sampling stopped by a rule."""
    _check_apart(selection, estimation)
    if estimation.noise != rule.certifier.noise:
        raise IntrsError(f"votes under {estimation.noise} do not fit a rule for {rule.certifier.noise}")
    if not rule.is_over(selection.top, estimation.counts):
        raise IntrsError(f"after these {estimation.count} votes the rule would have gone on; sample until it stops")
    return rule.judge(selection.top, estimation.counts)


def _check_apart(selection: Votes, estimation: Votes) -> None:
    if selection.samples.first < SELECTION or estimation.samples.end > SELECTION:
        raise IntrsError("selection and estimation must come from samples of their own (see intrs.votes)")
    if (selection.noise, selection.samples.stream) != (estimation.noise, estimation.samples.stream):
        raise IntrsError("selection and estimation must be votes about one image, under one noise and one seed")


def judge_prediction(sampled: Votes, dimension: int, alpha: Fraction) -> Predicted | Abstained:
    """Algorithm 2 from votes alone. The paper compares the p-value with 0.5; it has to be alpha.

    Without noise all votes are alike, and the class is the network's own.
    """
    if sampled.noise.is_none:
        return Predicted(sampled.top, sampled.count, sampled.count, alpha)
    n_a, n_b = sampled.counts[sampled.top], sampled.counts[sampled.second] if len(sampled.counts) > 1 else 0
    if prediction_passes(n_a, n_b, alpha - sampled.noise.tau(sampled.count, dimension)):
        return Predicted(sampled.top, n_a, sampled.count, alpha)
    return Abstained(n_a, sampled.count, alpha, f"{n_a} against {n_b} votes is too close to call at alpha {alpha}")


def _is_module(base: object) -> bool:
    torch = sys.modules.get("torch")  # who has a module has imported it
    return torch is not None and isinstance(base, torch.nn.Module)
