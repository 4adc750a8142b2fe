"""Changes of what is not computed: names, order, declarations, what nobody uses, and what is known to be the same."""

from __future__ import annotations

from onnx_passes.core.records import Application
from onnx_passes.proofs.proof import Proof, Unproved

METHOD = "nothing computed changes"


def prove_unchanged(application: Application) -> Proof | Unproved:
    """See what an application says of itself."""
    if application.settled and application.replaced:
        said = "old and new values share their bits, or the kernel that computes the old ones computed the new ones"
        return Proof("proved-here", METHOD, (said,))
    if not application.replaced and not application.added:
        said = "no value is replaced, and no node is added"
        return Proof("proved-here", METHOD, (said,))
    return Unproved(
        "values are replaced"
        if application.replaced
        else "a node will change in place: what it becomes is not known before"
    )
