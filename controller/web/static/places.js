// Where the switches of a drawing stand, and the frames around those of a plane or a pod: pure functions, no page.

import { layersOf, planesOf, podsOf, separatePlanes } from "./model.js";

export const WIDTH = 900;
const HEIGHTS = { 2: 470, 3: 640 }; // by the number of layers
const GAP = 16; // between two frames side by side
const ROOM_FOR_NAME = 60; // with less beside it, a switch's name is turned
const ROOM_FOR_TITLE = 20;
const TURNED = 92; // what a turned name takes, from the middle of its switch

/**
 * What stands side by side: the planes that share no switch, or the whole: [{name, kind, members, parts}]. `parts`: its
 * pods, or all its leaves where it has none. `kind`: "plane" or "pod", as its frame shows; null: it has no frame.
 */
function partsOf(fabric) {
  const planes = separatePlanes(fabric);
  if (planes.length > 1) return planes.map((plane) => part(`plane${plane}`, "plane", fabric.switches.filter((one) => one.plane === plane)));
  return [part(null, null, fabric.switches)];
}

function part(name, kind, switches) {
  const pods = podsOf({ switches });
  const parts = pods.map((pod) => ({ name: pod, kind: "pod", members: switches.filter((one) => one.pod === pod) }));
  const leaves = { name: null, kind: null, members: switches.filter((one) => one.role === "leaf") };
  return { name, kind, members: switches, parts: parts.length > 0 ? parts : [leaves] };
}

/** The leaves of one pod or fabric, plane by plane where planes have leaves of their own: [[name or null, leaves]]. */
function leafGroups(leaves) {
  const planes = planesOf({ switches: leaves });
  if (planes.length < 2 || leaves.some((one) => one.plane === null)) return [[null, leaves]];
  return planes.map((plane) => [`plane${plane}`, leaves.filter((one) => one.plane === plane)]);
}

const widest = (switches) => Math.max(1, ...layersOf({ switches }).map((layer) => layer.length));

/** [from, width] for each of some weights, side by side between two ends. */
function shares(weights, from, width, gap) {
  const unit = (width - gap * (weights.length - 1)) / weights.reduce((sum, weight) => sum + weight, 0);
  let at = from;
  return weights.map((weight) => {
    const own = [at, weight * unit];
    at += weight * unit + gap;
    return own;
  });
}

/**
 * @returns {{height, places, frames}} `places`: name of a switch -> {x, y, room, turned, above, middle}: the middle of its
 *   box, how wide that may be, whether its name is turned, and stands above it, and whether its layer is between two;
 *   `frames`: [{name, kind, x, y, width, height, title}], outer ones first, `title`: how far down its name stands
 */
export function placesOf(fabric) {
  const layers = layersOf(fabric);
  const height = HEIGHTS[layers.length] ?? HEIGHTS[2];
  if (layers.length === 0) return { height, places: new Map(), frames: [] };
  const x = new Map();
  const room = new Map(layers.flat().map((one) => [one.role, WIDTH]));
  const stand = (switches, from, width) => {
    for (const [k, one] of switches.entries()) x.set(one.name, from + ((k + 0.5) * width) / switches.length);
    if (switches.length > 0) room.set(switches[0].role, Math.min(room.get(switches[0].role), width / switches.length));
  };
  const spans = { plane: [], pod: [], leaves: [] };
  const whole = partsOf(fabric);
  const weights = whole.map(({ members, parts }) => Math.max(widest(members), parts.reduce((sum, own) => sum + widest(own.members), 0)));
  const outer = shares(weights, whole.length > 1 ? GAP / 2 : 0, WIDTH - (whole.length > 1 ? GAP : 0), GAP);
  for (const [k, { name, kind, members, parts }] of whole.entries()) {
    const [from, width] = outer[k];
    if (kind !== null) spans.plane.push({ name, kind, x: from - GAP / 4, width: width + GAP / 2 });
    stand(layersOf({ switches: members })[0], from, width);
    const framed = parts.length > 1;
    const inner = shares(parts.map((own) => widest(own.members)), from + (framed ? GAP / 2 : 0), width - (framed ? GAP : 0), GAP);
    for (const [p, own] of parts.entries()) {
      const [start, broad] = inner[p];
      if (framed) spans.pod.push({ name: own.name, kind: "pod", x: start - GAP / 4, width: broad + GAP / 2 });
      stand(own.members.filter((one) => one.role === "aggregation"), start, broad);
      const groups = leafGroups(own.members.filter((one) => one.role === "leaf"));
      const split = groups.length > 1;
      const ends = shares(groups.map(([, leaves]) => leaves.length), start + (split ? GAP / 2 : 0), broad - (split ? GAP : 0), GAP);
      for (const [g, [plane, leaves]] of groups.entries()) {
        stand(leaves, ...ends[g]);
        if (plane !== null) spans.leaves.push({ name: plane, kind: "plane", x: ends[g][0] - GAP / 4, width: ends[g][1] + GAP / 2 });
      }
    }
  }
  return { height, ...standing(layers, height, x, room, spans) };
}

/** How far down rows and frames are: titles of planes at the top, those of pods and of planes of leaves at the bottom. */
function standing(layers, height, x, room, spans) {
  const turned = (role) => room.get(role) < ROOM_FOR_NAME;
  const top = turned(layers[0][0].role) ? TURNED : spans.plane.length > 0 ? 58 : 48;
  const titles = ROOM_FOR_TITLE * ((spans.pod.length > 0 ? 1 : 0) + (spans.leaves.length > 0 ? 1 : 0)) + (spans.plane.length > 0 && spans.pod.length > 0 ? 4 : 0);
  const below = turned("leaf") ? TURNED : titles > 0 ? 34 : 48;
  const row = layers.map((_, k) => top + (k / Math.max(1, layers.length - 1)) * (height - top - below - titles));
  const places = new Map(
    layers.flatMap((layer, k) => layer.map(({ name, role }) => [name, { x: x.get(name), y: row[k], room: room.get(role), turned: turned(role), above: k < layers.length - 1 || layers.length === 1, middle: k > 0 && k < layers.length - 1 }])),
  );
  const end = row.at(-1) + below; // below the names of leaves
  const high = row.at(-2) - (layers.length > 2 && turned("aggregation") ? TURNED : 34);
  const frames = [
    ...spans.plane.map((one) => ({ ...one, y: 1, height: height - 2, title: 14 })),
    ...spans.pod.map((one) => ({ ...one, y: high, height: end + titles - 4 - high, title: end + titles - 14 })),
    ...spans.leaves.map((one) => ({ ...one, y: row.at(-1) - 22, height: end + ROOM_FOR_TITLE - 4 - (row.at(-1) - 22), title: end + ROOM_FOR_TITLE - 14 })),
  ];
  return { places, frames };
}
