"""The fabric, its links and their drains."""

from __future__ import annotations

from controller.core.caller import Role
from controller.core.ports.api import Backend, Document
from controller.rest import schemas
from controller.rest.forms import read_form
from controller.rest.operation import Body, Call, Operation, Resource
from controller.rest.resources.answers import answering, reading
from controller.rest.resources.parameters import DIRECTED, LINK, SINCE, UNDER


def _drain(backend: Backend, call: Call) -> Document:
    form = read_form(call.body, schemas.DrainForm)
    return backend.drain(call.values["id"], form.drained, call.who)


def _drains(backend: Backend, call: Call) -> Document:
    form = read_form(call.body, schemas.DrainsForm)
    return backend.drains(form.ids, form.drained, call.who)


FABRIC_RESOURCES: tuple[Resource, ...] = (
    Resource(
        "fabric",
        "/v1/fabric",
        {"GET": reading("getFabric", lambda b: b.fabric(), "The fabric and the cabling check", schemas.FabricDocument)},
    ),
    Resource(
        "drains",
        "/v1/fabric/links:drain",
        {
            "POST": Operation(
                "postDrains",
                answering(_drains),
                "Drain several cables, switches, pods or planes by one plan, or put them back into use",
                {200: schemas.DrainList},
                role=Role.WRITE,
                body=Body(schemas.DrainsForm, {"ids": ["leaf1-spine1"], "drained": True}),
                problems=frozenset({404}),
                description="If an id is wrong, nothing is changed. A drained link stays in use if no other path "
                "connects two leaves; its outcome says so.",
            ),
        },
    ),
    Resource(
        "drain",
        "/v1/fabric/links/{id}",
        {
            "GET": Operation(
                "getDrain",
                answering(lambda backend, call: backend.drainable(call.values["id"])),
                "Whether a cable, a switch, a pod or a plane is drained",
                {200: schemas.DrainDocument},
                problems=frozenset({404}),
                of_store=True,
            ),
            "PUT": Operation(
                "putDrain",
                answering(_drain),
                "Drain a cable, a switch, a pod or a plane, or put it back into use",
                {200: schemas.DrainDocument},
                role=Role.WRITE,
                body=Body(schemas.DrainForm, {"drained": True}),
                problems=frozenset({404}),
                description="A drained link stays in use if no other path connects two leaves; the response says so.",
            ),
        },
        variables=(LINK,),
    ),
    Resource(
        "links",
        "/v1/links",
        {
            "GET": Operation(
                "listLinks",
                answering(lambda b, call: b.links(call.values.get("under", "plan"), call.values.get("since"))),
                "Every directed link and its load, or those that have changed",
                {200: schemas.LinkList},
                parameters=(UNDER, SINCE),
            )
        },
    ),
    Resource(
        "link_history",
        "/v1/links/{id}/history",
        {
            "GET": Operation(
                "getLinkHistory",
                answering(lambda backend, call: backend.link_history(call.values["id"])),
                "The measured load of a directed link in the last 24 hours",
                {200: schemas.HistoryDocument},
                problems=frozenset({404}),
            )
        },
        variables=(DIRECTED,),
    ),
)
