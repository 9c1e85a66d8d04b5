"""Numbers of optimal selection that the host, the array code of an accelerator and the kernels share."""

OFFSET = 2.0**-5  # classes are of equal width below this ratio, of equal relative width above it
LARGE = 1e30  # ratios are cut here, so that all are finite
CLASSES = 256  # on an accelerator, where the caller leaves the number open
KERNELS = 512  # classes that the GPU's kernels take at most: their work grows with the square
STEPS = 8  # of Newton's method for the levels
