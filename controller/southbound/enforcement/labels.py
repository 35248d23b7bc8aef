"""MPLS labels as segments (RFC 8402, RFC 8660): which label stands for which switch and cable.

A *node label* names a spine or a leaf, the same on every switch. An *adjacency label* names the n-th of several
parallel cables from any spine to a leaf; it takes the place of the leaf's node label where the plan means that cable
(the node label means the first). Numbers are places in the Fabric, so they last as long as its switches do.

In three layers cores have the labels of spines. One more label, behind the block, asks an aggregation switch for any
core.
"""

from __future__ import annotations

from dataclasses import dataclass

from controller.model.errors import InputError
from controller.model.fabric import Fabric

LABEL_BASE = "label_base"
"""The option of the controller that names the first label."""

LABEL_BYTES = 4
"""Of one label stack entry (RFC 3032, section 2.1)."""

DEFAULT_BASE = 16000
"""The usual begin of other vendors' global blocks, too (RFC 8402, section 3.1.2 leaves it to the operator)."""

FIRST_LABEL = 16
"""Labels below are reserved (RFC 3032, section 2.1)."""

END_OF_LABELS = 1 << 20

PART = 4096
"""Maximum number of spines, and of leaves in each row of labels."""


@dataclass(frozen=True)
class LabelBlock:
    """A block of labels: spines from ``base``, leaves from ``base + 4096``, a row of 4,096 for each further cable."""

    base: int = DEFAULT_BASE

    def spine(self, spine: int) -> int:
        """Return the node label of the spine with this index."""
        return self.base + spine

    def leaf(self, leaf: int, number: int = 0) -> int:
        """Return the node label of the leaf with this index; with ``number``, the label of its cable of that number."""
        return self.base + PART * (1 + number) + leaf

    def any_core(self, fabric: Fabric) -> int:
        """Return the label by which an aggregation switch picks a core itself."""
        return self.base + PART * (1 + widest(fabric))

    def stack(self, fabric: Fabric, src_leaf: int, dst_leaf: int, path: int) -> tuple[int, ...]:
        """Return the labels of a path between leaves, the outermost first; in a pod only that of its leaf."""
        choice = fabric.ways.first_choice(path)
        leaf = self.leaf(dst_leaf, int(fabric.choices[0].number[choice]))
        if len(fabric.layers) == 2:
            return self.spine(int(fabric.choices[0].switch[src_leaf, choice])), leaf
        links = fabric.ways.links_of(src_leaf, dst_leaf, path)
        top = int(fabric.cable_upper[(links[len(links) // 2 - 1] - fabric.first_cable_link) // 2])
        return (leaf,) if len(links) == 2 else (self.spine(top), leaf)

    def check(self, fabric: Fabric) -> None:
        """See whether the block holds the fabric.

        Raises:
            InputError: too many switches, labels out of range, or parallel cables of cores.
        """
        three = len(fabric.layers) == 3
        several = (fabric.cable_number * fabric.cable_tier).nonzero()[0].tolist()
        if several:
            raise InputError(
                "there are no labels for parallel cables of cores",
                value=fabric.cable_names[several[0]],
            )
        for what, many in (("cores" if three else "spines", fabric.n_spines), ("leaves", fabric.n_leaves)):
            if many > PART:
                raise InputError(f"there are only labels for {PART} {what}; the fabric has {many}")
        end = self.base + PART * (1 + widest(fabric)) + three
        if self.base < FIRST_LABEL or end > END_OF_LABELS:
            reason = f"labels {self.base} to {end - 1} are needed; labels are {FIRST_LABEL} to {END_OF_LABELS - 1}"
            raise InputError(reason, field=LABEL_BASE, value=self.base)


def widest(fabric: Fabric) -> int:
    """Return the largest number of parallel cables between two switches; at least 1."""
    return max(int(fabric.parallel.max(initial=0)), 1)
