"""Certify one image: a class, and a radius inside which no perturbation can change it.

python examples/certify_one_image.py
"""

import intrs
from intrs import zoo

N = 500  # samples; papers take 100,000

network = intrs.load(zoo.model_path())
data = intrs.open_data(zoo.DEFAULT_DATA)
smooth = intrs.Smooth(network, intrs.Noise.of("discrete", "0.25"), seed=2024)

position = 8
image, index = data.images[position], int(data.indices[position])
print(f"image {index} of {data.name} shows: {data.classes[data.labels[position]]}")

match smooth.certify(image, n=N, alpha="0.001", index=index):
    case intrs.Certified() as found:
        print(f"certified: {data.classes[found.label]}, by {found.votes} of {found.n} votes")
        print(f"whatever is added to its pixels, if |change| <= {found.radius_text(3)} (in units of the pixel range)")
        print(f"exactly: the sum of the squared changes, in pixel levels, is at most {found.radius_sq}")
    case intrs.Abstained() as nothing:
        print(f"abstained: {nothing.reason}")

print(f"model {network.identity[:16]} and seed {smooth.seed} give the same votes on every machine")
