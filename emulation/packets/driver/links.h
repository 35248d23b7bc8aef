// Links: each is the sending half of a point-to-point device, with a queue that marks, trims and prefers headers.
#pragma once

#include "classes.h"
#include "label.h"
#include "settings.h"

#ifdef WITH_NS3
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#else
#include "events.h"
#endif

#include <algorithm>
#include <deque>
#include <functional>
#include <vector>

// The queue of an output. Acknowledgements and trimmed packets go first and are never dropped.
class OutputQueue
#ifdef WITH_NS3
    : public ns3::Queue<ns3::Packet>
#endif
{
 public:
#ifdef WITH_NS3
#define OVERRIDES override
  static ns3::TypeId GetTypeId() {
    static ns3::TypeId id = ns3::TypeId("fairspine::OutputQueue").SetParent<ns3::Queue<ns3::Packet>>().AddConstructor<OutputQueue>();
    return id;
  }
  ns3::TypeId GetInstanceTypeId() const override { return GetTypeId(); }
  ns3::Ptr<ns3::Packet> Remove() override { return Dequeue(); }
  ns3::Ptr<const ns3::Packet> Peek() const override {
    return !control_.empty() ? control_.front() : waiting() ? data_[turns_.next(waits())].front() : nullptr;
  }
  void count(int more) { m_nPackets += more; }  // which the device asks for
  void count_none() { m_nPackets = 0; }
#else
#define OVERRIDES
  void count(int) {}
  void count_none() {}
#endif

  bool Enqueue(ns3::Ptr<ns3::Packet> packet) OVERRIDES {
    if (!up) {
      ++dropped;
      return false;
    }
    Label label;
    packet->PeekPacketTag(label);
    if (label.kind == DATA && !limit) {
      data_[label.priority].push_back(packet);
    } else if (label.kind == DATA && class_bytes_[label.priority] + packet->GetSize() > limit) {
      if (settings->recovery != Recovery::TRIM) {
        ++dropped;
        return false;
      }
      ++trimmed;
      label.kind = TRIMMED;
      packet->ReplacePacketTag(label);
      if (packet->GetSize() > settings->ack_bytes) packet->RemoveAtEnd(packet->GetSize() - settings->ack_bytes);
      control_.push_back(packet);
    } else if (label.kind == DATA) {
      if (marks(label)) {
        label.marked = 1;
        packet->ReplacePacketTag(label);
      }
      data_bytes += packet->GetSize();
      class_bytes_[label.priority] += packet->GetSize();
      most_bytes = std::max(most_bytes, data_bytes);
      data_[label.priority].push_back(packet);
    } else {
      control_.push_back(packet);
    }
    count(1);
    return true;
  }

  ns3::Ptr<ns3::Packet> Dequeue() OVERRIDES {
    ns3::Ptr<ns3::Packet> packet;
    if (!control_.empty()) {
      packet = control_.front();
      control_.pop_front();
      count(-1);
    } else if (waiting()) {
      uint32_t which = turns_.next(waits());
      packet = data_[which].front();
      data_[which].pop_front();
      turns_.sent(which, packet->GetSize(), waits());
      count(-1);
      if (limit) data_bytes -= packet->GetSize(), class_bytes_[which] -= packet->GetSize();
    } else if (pull) {
      packet = pull();
    }
    sending = packet != nullptr;
    if (sending) carried += packet->GetSize();
    return packet;
  }

  void fail() {
    dropped += control_.size();
    for (auto &each : data_) dropped += each.size(), each.clear();
    class_bytes_.fill(0);
    control_.clear();
    data_bytes = 0;
    count_none();
  }

  const Settings *settings = nullptr;
  uint64_t limit = 0;  // bytes of data; 0: none, since a host sends only what its device can take
  std::function<ns3::Ptr<ns3::Packet>()> pull;  // of a host: its next packet
  uint64_t link_hash = 0;
  bool up = true;
  bool sending = false;
  uint64_t data_bytes = 0, most_bytes = 0, carried = 0, dropped = 0, trimmed = 0;

 private:
  bool marks(const Label &label) const {
    uint64_t queued = class_bytes_[label.priority];
    if (queued < settings->mark_from) return false;
    if (queued >= settings->mark_all) return true;
    double part = double(queued - settings->mark_from) / double(settings->mark_all - settings->mark_from);
    return unit(mix(mix(link_hash, label.psn), carried)) < part;
  }
  bool waiting() const {
    for (const auto &each : data_) if (!each.empty()) return true;
    return false;
  }
  std::array<bool, CLASSES> waits() const {
    std::array<bool, CLASSES> some;
    for (uint32_t each = 0; each < CLASSES; ++each) some[each] = !data_[each].empty();
    return some;
  }
  std::deque<ns3::Ptr<ns3::Packet>> control_;
  std::array<std::deque<ns3::Ptr<ns3::Packet>>, CLASSES> data_;  // by class, each with room of its own
  std::array<uint64_t, CLASSES> class_bytes_{};
  ClassTurns turns_;

#ifndef WITH_NS3
 public:
  uint32_t references = 0;
  void release() { delete this; }
#endif
};
