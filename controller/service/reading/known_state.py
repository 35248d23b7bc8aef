"""The newest state for what needs a known fabric."""

from __future__ import annotations

from controller.core.controller_state import ControllerState
from controller.model.errors import UnavailableError
from controller.model.fabric import Fabric
from controller.service.reconciling.reconciler import Reconciler
from controller.views import health


class KnownState:
    """Return the newest published state and its fabric, or refuse while the fabric is not known."""

    def __init__(self, reconciler: Reconciler, intended: Fabric | None) -> None:
        """Read the states of a reconciler; ``intended`` is the fabric file, which says what is waited for."""
        self._reconciler, self._intended = reconciler, intended

    def fabric(self) -> Fabric:
        """Return the present fabric.

        Raises:
            UnavailableError: it is not known yet.
        """
        fabric = self._reconciler.state.fabric
        if fabric is None:
            raise UnavailableError(f"the fabric is not known yet: {health.unknown_because(self._intended)}")
        return fabric

    def state(self) -> ControllerState:
        """Return the newest state.

        Raises:
            UnavailableError: the fabric is not known yet.
        """
        self.fabric()
        return self._reconciler.state
