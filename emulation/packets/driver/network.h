// The network: switches that forward along the path of a connection, and choose it anew where packets are sprayed adaptively.
#pragma once

#include "device.h"
#include "meter.h"

#include <memory>
#include <stdexcept>

using Path = std::vector<uint32_t>;  // links, from the sender's to the receiver's

// What forwarding knows of a connection.
struct Route {
  std::vector<Path> paths;          // in lexicographic order where switches choose
  size_t first = 0;                 // of the paths that are in use; packets under way keep former ones
  bool switches_choose = false;
  Meter meter;                      // at the first switch
};

struct Link {
  uint32_t from = 0, to = 0, reverse = 0;
  double bps = 0;
  std::unique_ptr<Device> device;
  ns3::Ptr<OutputQueue> queue;
};

class Network {
 public:
  explicit Network(const Settings &settings) : settings_(settings) {}

  void add_cable(uint32_t a, uint32_t b, uint32_t there, uint32_t back, double bps, double delay, bool up) {
    if (links.size() <= std::max(there, back)) links.resize(std::max(there, back) + 1);
    prepare(there, a, b, back, bps, up);
    prepare(back, b, a, there, bps, up);
    // What the device at b receives came over the link there, and the other way round.
    Device::connect(
        *links[there].device, *links[back].device, delay, [this, back](ns3::Ptr<const ns3::Packet> packet) { arrived(back, packet); },
        [this, there](ns3::Ptr<const ns3::Packet> packet) { arrived(there, packet); });
  }

  void send(uint32_t link, ns3::Ptr<ns3::Packet> packet) { links[link].device->send(packet); }

  void set_up(uint32_t link, bool up) {
    links[link].queue->up = up;
    if (!up) links[link].queue->fail();
  }

  // A packet has come over a link: forward it, or hand it to its host.
  void arrived(uint32_t link, ns3::Ptr<const ns3::Packet> packet) {
    if (!links[link].queue->up) {
      ++links[link].queue->dropped;
      return;
    }
    Label label;
    packet->PeekPacketTag(label);
    Route &route = *routes[label.connection];
    const Path *path = &route.paths[label.path];
    bool forth = label.kind == DATA || label.kind == TRIMMED;
    size_t place = 0;
    if (forth) {
      while (place < path->size() && (*path)[place] != link) ++place;
    } else {
      while (place < path->size() && links[(*path)[path->size() - 1 - place]].reverse != link) ++place;
    }
    if (place + 1 >= path->size()) {
      deliver(label);
      return;
    }
    auto copy = packet->Copy();
    if (!forth) {
      send(links[(*path)[path->size() - 2 - place]].reverse, copy);
      return;
    }
    // A device takes two bytes for its own header.
    if (!place && settings_.meter_bytes && label.kind == DATA && !route.meter.passes(packet->GetSize() + 2, settings_.meter_bytes)) {
      ++links[link].queue->dropped;
      return;
    }
    if (route.switches_choose) {
      uint32_t chosen = emptiest(route, label.path, place + 1);
      if (chosen != label.path) {
        label.path = chosen;
        copy->ReplacePacketTag(label);
        path = &route.paths[chosen];
      }
    }
    send((*path)[place + 1], copy);
  }

  std::vector<Link> links;
  std::vector<Route *> routes;  // by connection
  std::function<void(const Label &)> deliver;

 private:
  void prepare(uint32_t link, uint32_t from, uint32_t to, uint32_t reverse, double bps, bool up) {
    Link &made = links[link];
    made.from = from, made.to = to, made.reverse = reverse, made.bps = bps;
    made.queue = ns3::CreateObject<OutputQueue>();
    made.queue->settings = &settings_;
    made.queue->limit = settings_.queue_bytes;
    made.queue->link_hash = mix(settings_.seed, link);
    made.queue->up = up;
    made.device = std::make_unique<Device>(made.queue, bps);
  }

  // Of the paths that agree with `path` on its first `place` links, the one whose next link has the shortest queue.
  uint32_t emptiest(const Route &route, uint32_t path, size_t place) const {
    const Path &taken = route.paths[path];
    auto agrees = [&](const Path &other) {
      return other.size() == taken.size() && std::equal(taken.begin(), taken.begin() + place, other.begin());
    };
    uint32_t best = path;
    uint64_t least = waiting(taken[place]);
    for (uint32_t other = route.first; other < route.paths.size(); ++other) {
      // Equal ones keep the path that was drawn.
      if (!agrees(route.paths[other])) continue;
      uint64_t bytes = waiting(route.paths[other][place]);
      if (bytes < least) best = other, least = bytes;
    }
    return best;
  }
  uint64_t waiting(uint32_t link) const {
    const OutputQueue &queue = *links[link].queue;
    return queue.up ? queue.data_bytes + queue.sending : UINT64_MAX;
  }

  const Settings &settings_;
};
