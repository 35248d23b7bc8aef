// The network: switches that forward along the path of a connection, and choose it anew where packets are sprayed adaptively.
#pragma once

#include "links.h"

#include <stdexcept>

using Path = std::vector<uint32_t>;  // links, from the sender's to the receiver's

// What forwarding knows of a connection.
struct Route {
  std::vector<Path> paths;          // in lexicographic order where switches choose
  size_t first = 0;                 // of the paths that are in use; packets under way keep former ones
  bool switches_choose = false;
};

class Network;

// The receiving half of a link's device.
class Arrival {
 public:
  Arrival(Network *network, uint32_t link) : network_(network), link_(link) {}
  bool receive(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> packet, uint16_t, const ns3::Address &);

 private:
  Network *network_;
  uint32_t link_;
};

struct Link {
  uint32_t from = 0, to = 0, reverse = 0;
  double bps = 0;
  ns3::Ptr<ns3::PointToPointNetDevice> device;
  ns3::Ptr<OutputQueue> queue;
};

class Network {
 public:
  explicit Network(const Settings &settings) : settings_(settings) {}

  void add_cable(uint32_t a, uint32_t b, uint32_t there, uint32_t back, double bps, double delay, bool up) {
    while (nodes_.size() <= std::max(a, b)) nodes_.push_back(ns3::CreateObject<ns3::Node>());
    if (links.size() <= std::max(there, back)) links.resize(std::max(there, back) + 1);
    auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
    channel->SetAttribute("Delay", ns3::TimeValue(ns3::Seconds(delay)));
    attach(there, a, b, back, bps, channel, up);
    attach(back, b, a, there, bps, channel, up);
    // What the device at b receives came over the link there, and the other way round.
    listen(links[back].device, there);
    listen(links[there].device, back);
  }

  void send(uint32_t link, ns3::Ptr<ns3::Packet> packet) { links[link].device->Send(packet, ns3::Mac48Address(), 0x0800); }

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
    const Route &route = *routes[label.connection];
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
  void attach(uint32_t link, uint32_t from, uint32_t to, uint32_t reverse, double bps, ns3::Ptr<ns3::PointToPointChannel> channel, bool up) {
    Link &made = links[link];
    made.from = from, made.to = to, made.reverse = reverse, made.bps = bps;
    made.device = ns3::CreateObject<ns3::PointToPointNetDevice>();
    made.device->SetDataRate(ns3::DataRate(uint64_t(bps)));
    made.device->SetMtu(65535);
    made.device->SetAddress(ns3::Mac48Address());
    made.device->SetNode(nodes_[from]);
    made.queue = ns3::CreateObject<OutputQueue>();
    made.queue->settings = &settings_;
    made.queue->limit = settings_.queue_bytes;
    made.queue->link_hash = mix(settings_.seed, link);
    made.queue->up = up;
    made.device->SetQueue(made.queue);
    made.device->Attach(channel);
  }

  void listen(ns3::Ptr<ns3::PointToPointNetDevice> device, uint32_t link) {
    arrivals_.push_back(std::make_unique<Arrival>(this, link));
    device->SetReceiveCallback(ns3::MakeCallback(&Arrival::receive, arrivals_.back().get()));
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
  std::vector<ns3::Ptr<ns3::Node>> nodes_;
  std::vector<std::unique_ptr<Arrival>> arrivals_;
};

inline bool Arrival::receive(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> packet, uint16_t, const ns3::Address &) {
  network_->arrived(link_, packet);
  return true;
}
