// Hosts and connections: windows, paces, choice of paths by the sender, acknowledgements, and what is sent again.
#pragma once

#include "network.h"

#ifdef WITH_NS3
#include "ns3/core-module.h"
#include "ns3/ppp-header.h"
#endif

#include <memory>
#include <numeric>

enum class Spread { PINNED, RANDOM, ROUND_ROBIN, ADAPTIVE, RECYCLED };

// The bytes of one transfer on one connection.
struct Message {
  uint32_t first, end;     // packets [first, end)
  uint32_t last_payload;   // bytes of the last packet
  uint32_t missing;        // packets that have not arrived
  std::function<void()> arrived;
};

class Host;

class Connection {
 public:
  Connection(uint32_t number, uint64_t key, Spread spread, Network &network, const Settings &settings, uint8_t priority)
      : priority(priority), number_(number), key_(mix(settings.seed, key)), spread_(spread), network_(network), settings_(settings), window_(settings.window) {
    route.switches_choose = spread == Spread::ADAPTIVE;
    turn_ = key_;
  }

  // Send so many bytes; `arrived` is called when the receiver has all of them.
  void post(uint64_t bytes, std::function<void()> arrived);

  // Take other paths for what is sent from now on; packets under way keep theirs.
  void set_paths(std::vector<Path> paths) {
    if (route.switches_choose) std::sort(paths.begin(), paths.end());
    route.first = route.paths.size();
    // Nobody sends on former paths again, and no packet of a connection that was never used is on one.
    if (!posted_) route.first = 0, route.paths.clear();
    route.paths.insert(route.paths.end(), paths.begin(), paths.end());
    by_path_.resize(route.paths.size());
    recycled_.clear();
  }
  void set_pace(double bps);   // the caller lets the host send

  bool wants() const { return (!again_.empty() || next_ < posted_) && in_flight_ + 1 <= std::max(1.0, window()); }
  double window() const { return std::min(window_, most_in_flight_); }
  ns3::Time earliest() const { return pace_bps_ > 0 ? next_send_ : ns3::Time(0); }
  ns3::Ptr<ns3::Packet> next_packet();

  void data_arrived(const Label &label);   // at the receiver
  void ack_arrived(const Label &label);    // at the sender

  uint64_t key() const { return key_; }

  uint8_t priority;  // class of the packets that it sends from now on
  Route route;
  Host *source = nullptr;
  Host *sink = nullptr;
  uint64_t delivered_bytes = 0, sent_packets = 0, sent_again = 0, trimmed = 0, duplicates = 0, marked = 0, timeouts = 0;

 private:
  enum State : uint8_t { UNSENT, IN_FLIGHT, LOST, ACKED };
  struct Slot {
    State state = UNSENT;
    uint32_t path = 0;
    uint8_t attempts = 0;
  };

  const Message &message_of(uint32_t psn) const {
    return *std::upper_bound(messages_.begin(), messages_.end(), psn, [](uint32_t p, const Message &m) { return p < m.end; });
  }
  Message &message_of(uint32_t psn) { return const_cast<Message &>(std::as_const(*this).message_of(psn)); }
  uint32_t payload_of(uint32_t psn) const {
    const Message &message = message_of(psn);
    return psn + 1 == message.end ? message.last_payload : settings_.mtu;
  }
  bool infers_losses() const { return settings_.recovery == Recovery::SELECTIVE && spread_ != Spread::ADAPTIVE; }
  uint32_t choose_path(uint32_t psn, uint32_t attempt);
  void acked(uint32_t psn, bool was_marked);
  void lost(uint32_t psn);
  void count(bool was_marked, uint32_t psn);
  void send_ack(uint8_t kind, uint32_t psn, uint32_t path);
  void flush_later();
  void watch();
  void forget_messages();

  uint32_t number_;
  uint64_t key_;
  Spread spread_;
  Network &network_;
  const Settings &settings_;
  // The sender.
  std::deque<Message> messages_;
  uint32_t posted_ = 0, next_ = 0, base_ = 0, in_flight_ = 0;
  std::deque<Slot> slots_;                       // of packets from base_
  std::deque<uint32_t> again_;                   // packets to send again
  std::vector<std::deque<uint32_t>> by_path_;    // packets on each path, in the order in which they were sent
  std::deque<uint32_t> recycled_;                // paths that answered without a mark
  uint64_t turn_;
  double window_, alpha_ = 1.0;
  uint32_t window_ends_ = 0, answered_ = 0, answered_marked_ = 0;
  double pace_bps_ = 0;
  double most_in_flight_ = HUGE_VAL;             // packets, by its pace
  ns3::Time next_send_{0}, progress_{0};
  bool watching_ = false;

  // The receiver.
  uint32_t expected_ = 0;
  std::deque<bool> got_;                         // packets from expected_
  std::vector<uint32_t> pending_;                // to acknowledge
  uint32_t pending_path_ = 0;
  bool flushing_ = false;
  uint32_t refused_ = UINT32_MAX;                // the packet that the last NACK asked for
};

class Host {
 public:
  Host(Network &network, uint32_t up_link) : network_(network), up_link_(up_link) {
    queue()->limit = 0;
    queue()->pull = [this] { return pull(true); };
  }

  void add(Connection *connection) {
    // In the order of their keys, which does not depend on the order of jobs.
    auto place = std::lower_bound(connections_.begin(), connections_.end(), connection->key(), [](Connection *c, uint64_t key) { return c->key() < key; });
    connections_.insert(place, connection);
    compare_classes();
  }

  // The class of a connection is another one now.
  void compare_classes() {
    several_classes_ = false;
    for (Connection *each : connections_) several_classes_ |= each->priority != connections_.front()->priority;
  }

  void kick() {
    if (queue()->sending) return;
    if (auto packet = pull(false)) network_.send(up_link_, packet);
  }

  void send_control(uint32_t link, ns3::Ptr<ns3::Packet> packet) { network_.send(link, packet); }

 private:
  OutputQueue *queue() { return ns3::PeekPointer(network_.links[up_link_].queue); }

  ns3::Ptr<ns3::Packet> pull(bool by_device) {
    ns3::Time now = ns3::Simulator::Now(), wake = ns3::Time::Max();
    if (!queue()->up) return nullptr;
    // Of each class, the first connection after the last one that sent.
    std::array<bool, CLASSES> waits{};
    std::array<size_t, CLASSES> first{};
    for (size_t i = 1; i <= connections_.size(); ++i) {
      size_t which = (turn_ + i) % connections_.size();
      Connection *connection = connections_[which];
      if (waits[connection->priority] || !connection->wants()) continue;
      ns3::Time earliest = connection->earliest();
      if (earliest > now) {
        wake = std::min(wake, earliest);
        continue;
      }
      waits[connection->priority] = true, first[connection->priority] = which;
      if (!several_classes_) break;
    }
    if (std::find(waits.begin(), waits.end(), true) != waits.end()) {
      uint32_t priority = turns_.next(waits);
      turn_ = first[priority];
      auto packet = connections_[turn_]->next_packet();
      turns_.sent(priority, packet->GetSize(), waits);
      if (by_device) {
        ns3::PppHeader header;
        header.SetProtocol(0x0021);
        packet->AddHeader(header);
      }
      return packet;
    }
    if (wake != ns3::Time::Max() && !(waking_.IsRunning() && wake_at_ <= wake)) {
      waking_.Cancel();
      wake_at_ = wake;
      waking_ = ns3::Simulator::Schedule(wake - now, &Host::kick, this);
    }
    return nullptr;
  }

  Network &network_;
  uint32_t up_link_;
  std::vector<Connection *> connections_;
  size_t turn_ = 0;
  bool several_classes_ = false;
  ClassTurns turns_;
  ns3::EventId waking_;
  ns3::Time wake_at_{0};
};

inline void Connection::set_pace(double bps) {
  bool by_window = settings_.pace_window > 0 && bps > 0;
  // Beside what is on its way at the pace, as many packets as wait for one acknowledgement.
  most_in_flight_ = by_window ? bps * settings_.pace_window / 8 / (settings_.mtu + settings_.headers) + settings_.ack_every : HUGE_VAL;
  pace_bps_ = by_window || settings_.meter_bytes ? 0 : bps;
  if (settings_.meter_bytes) route.meter.set(bps);
  next_send_ = std::min(next_send_, ns3::Simulator::Now());
}

inline void Connection::post(uint64_t bytes, std::function<void()> arrived) {
  uint32_t packets = std::max<uint64_t>(1, (bytes + settings_.mtu - 1) / settings_.mtu);
  uint32_t last = bytes - uint64_t(packets - 1) * settings_.mtu;
  // A host that had nothing to send makes up for nothing: at the begin of a round all of them would send at once.
  if (next_ == posted_ && again_.empty()) next_send_ = std::max(next_send_, ns3::Simulator::Now());
  messages_.push_back({posted_, posted_ + packets, last, packets, std::move(arrived)});
  posted_ += packets;
  source->kick();
}

inline uint32_t Connection::choose_path(uint32_t psn, uint32_t attempt) {
  size_t count = route.paths.size() - route.first;
  if (count == 1 || spread_ == Spread::PINNED) return route.first;
  if (spread_ == Spread::ROUND_ROBIN) return route.first + turn_++ % count;
  if (spread_ == Spread::RECYCLED && !recycled_.empty()) {
    uint32_t path = recycled_.front();
    recycled_.pop_front();
    return path;
  }
  return route.first + mix(mix(key_, psn), attempt) % count;
}

inline ns3::Ptr<ns3::Packet> Connection::next_packet() {
  uint32_t psn;
  if (!again_.empty()) {
    psn = again_.front();
    again_.pop_front();
    ++sent_again;
  } else {
    psn = next_++;
    slots_.emplace_back();
  }
  Slot &slot = slots_[psn - base_];
  slot.path = choose_path(psn, slot.attempts++);
  slot.state = IN_FLIGHT;
  if (infers_losses()) by_path_[slot.path].push_back(psn);
  ++in_flight_;
  ++sent_packets;
  // A device takes two bytes for its own header.
  uint32_t wire = payload_of(psn) + settings_.headers;
  if (pace_bps_ > 0) {
    ns3::Time now = ns3::Simulator::Now(), gap = ns3::Seconds(wire * 8.0 / pace_bps_);
    // What could not be sent in time because the device was busy is made up for, but for no more than two packets.
    next_send_ = std::max(next_send_, now - gap - gap) + gap;
  }
  auto packet = ns3::Create<ns3::Packet>(wire - 2);
  Label label;
  label.connection = number_;
  label.path = slot.path;
  label.psn = psn;
  label.priority = priority;
  // Else enough packets follow, or are under way, for the next acknowledgement.
  label.wants_ack = (again_.empty() && next_ == posted_) || window() < 2 * settings_.ack_every;
  packet->AddPacketTag(label);
  watch();
  return packet;
}

inline void Connection::data_arrived(const Label &label) {
  uint32_t psn = label.psn;
  if (label.kind == TRIMMED) {
    ++trimmed;
    send_ack(NACK, psn, label.path);
    return;
  }
  if (settings_.recovery == Recovery::GO_BACK_N && psn > expected_) {
    // Out of order: the receiver keeps nothing, and asks once for what it expects.
    if (refused_ != expected_) {
      refused_ = expected_;
      send_ack(NACK, expected_, label.path);
    }
    return;
  }
  bool fresh = psn >= expected_ && (psn - expected_ >= got_.size() || !got_[psn - expected_]);
  bool whole = false;
  if (fresh) {
    if (psn - expected_ >= got_.size()) got_.resize(psn - expected_ + 1, false);
    got_[psn - expected_] = true;
    while (!got_.empty() && got_.front()) {
      got_.pop_front();
      ++expected_;
    }
    delivered_bytes += payload_of(psn);
    Message &message = message_of(psn);
    whole = --message.missing == 0;
  } else {
    ++duplicates;
  }
  pending_.push_back(psn | (label.marked ? MARKED : 0));
  pending_path_ = label.path;
  if (label.wants_ack || !fresh || whole || pending_.size() >= settings_.ack_every) send_ack(ACK, 0, label.path);
  else flush_later();
  if (whole) {
    auto arrived = std::move(message_of(psn).arrived);
    forget_messages();
    arrived();
  }
}

inline void Connection::send_ack(uint8_t kind, uint32_t psn, uint32_t path) {
  Label label;
  label.connection = number_;
  label.path = path;
  label.kind = kind;
  label.psn = expected_;
  if (kind == NACK) {
    label.count = 1;
    label.acked[0] = psn;
  } else {
    label.count = pending_.size();
    std::copy(pending_.begin(), pending_.end(), label.acked);
    pending_.clear();
  }
  auto packet = ns3::Create<ns3::Packet>(settings_.ack_bytes - 2);
  packet->AddPacketTag(label);
  sink->send_control(network_.links[route.paths[path].back()].reverse, packet);
}

// Packets of which none asked for an acknowledgement are acknowledged a little later.
inline void Connection::flush_later() {
  if (flushing_) return;
  flushing_ = true;
  ns3::Simulator::Schedule(ns3::Seconds(settings_.timeout / 20), [this] {
    flushing_ = false;
    if (!pending_.empty()) send_ack(ACK, 0, pending_path_);
  });
}

inline void Connection::count(bool was_marked, uint32_t psn) {
  ++answered_;
  marked += was_marked;
  answered_marked_ += was_marked;
  if (settings_.control == Control::WINDOW) return;
  if (!was_marked) window_ = std::min(settings_.most_window, window_ + 1 / window_);
  if (psn < window_ends_) return;
  // Once in a window (DCTCP, RFC 8257, section 3.3); two packets stay, as after a loss (RFC 5681, section 3.1).
  double part = double(answered_marked_) / answered_;
  alpha_ += (part - alpha_) / 16;
  if (answered_marked_) window_ = std::max(2.0, window_ * (1 - alpha_ / 2));
  answered_ = answered_marked_ = 0;
  window_ends_ = next_;
}

inline void Connection::acked(uint32_t psn, bool was_marked) {
  if (psn < base_) return;
  Slot &slot = slots_[psn - base_];
  if (slot.state == ACKED || slot.state == UNSENT) return;
  if (slot.state == IN_FLIGHT) --in_flight_;
  else again_.erase(std::find(again_.begin(), again_.end(), psn));
  slot.state = ACKED;
  if (spread_ == Spread::RECYCLED && !was_marked && slot.path >= route.first) recycled_.push_back(slot.path);
  count(was_marked, psn);
  if (!infers_losses()) return;
  // A path keeps the order: what was sent on it before and has not arrived, is lost.
  auto &sent = by_path_[slot.path];
  while (!sent.empty()) {
    uint32_t other = sent.front();
    sent.pop_front();
    if (other == psn) break;
    if (other >= base_) lost(other);
  }
}

inline void Connection::lost(uint32_t psn) {
  Slot &slot = slots_[psn - base_];
  if (slot.state != IN_FLIGHT) return;
  --in_flight_;
  slot.state = LOST;
  again_.insert(std::upper_bound(again_.begin(), again_.end(), psn), psn);
  count(true, psn);
}

inline void Connection::ack_arrived(const Label &label) {
  progress_ = ns3::Simulator::Now();
  if (label.kind == NACK) {
    uint32_t psn = label.acked[0];
    if (settings_.recovery == Recovery::GO_BACK_N) {
      for (uint32_t each = base_; each < std::min(psn, next_); ++each) acked(each, false);
      for (uint32_t each = std::max(psn, base_); each < next_; ++each) lost(each);
    } else if (psn >= base_) {
      lost(psn);
    }
    if (settings_.control == Control::DCTCP) window_ = std::max(2.0, window_ - 1);
  } else {
    for (uint32_t i = 0; i < label.count; ++i) acked(label.acked[i] & ~MARKED, label.acked[i] & MARKED);
    for (uint32_t each = base_; each < std::min(label.psn, next_); ++each) acked(each, false);
  }
  while (!slots_.empty() && slots_.front().state == ACKED) {
    slots_.pop_front();
    ++base_;
  }
  forget_messages();
  source->kick();
}

inline void Connection::forget_messages() {
  while (!messages_.empty() && !messages_.front().missing && messages_.front().end <= base_ && messages_.front().end <= expected_) messages_.pop_front();
}

inline void Connection::watch() {
  if (watching_) return;
  watching_ = true;
  progress_ = std::max(progress_, ns3::Simulator::Now());
  ns3::Simulator::Schedule(ns3::Seconds(settings_.timeout), [this] {
    watching_ = false;
    if (!in_flight_) return;
    if (ns3::Simulator::Now() - progress_ >= ns3::Seconds(settings_.timeout * 0.999)) {
      ++timeouts;
      for (uint32_t each = base_; each < next_; ++each) lost(each);
      for (auto &sent : by_path_) sent.clear();
      window_ = settings_.control == Control::DCTCP ? 1.0 : window_;
      source->kick();
    }
    if (in_flight_ || !again_.empty()) watch();
  });
}
