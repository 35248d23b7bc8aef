// Events, packets, links and their devices without ns-3: what the driver uses of it, under the same names, with the same times
// (in picoseconds) and the same order of events that are due at once. So both programs have equal results, and this one is
// faster: packets are small values from a pool, and a device costs two events a packet and no virtual call.
#pragma once

#include "label.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace ns3 {

class Time {
 public:
  constexpr Time() = default;
  constexpr explicit Time(int64_t picoseconds) : picoseconds_(picoseconds) {}
  static constexpr Time Max() { return Time(std::numeric_limits<int64_t>::max()); }
  double GetSeconds() const { return double(picoseconds_ / 1e12L); }
  constexpr int64_t picoseconds() const { return picoseconds_; }

  friend constexpr Time operator+(Time a, Time b) { return Time(a.picoseconds_ + b.picoseconds_); }
  friend constexpr Time operator-(Time a, Time b) { return Time(a.picoseconds_ - b.picoseconds_); }
  friend constexpr bool operator<(Time a, Time b) { return a.picoseconds_ < b.picoseconds_; }
  friend constexpr bool operator>(Time a, Time b) { return b < a; }
  friend constexpr bool operator<=(Time a, Time b) { return !(b < a); }
  friend constexpr bool operator>=(Time a, Time b) { return !(a < b); }
  friend constexpr bool operator==(Time a, Time b) { return a.picoseconds_ == b.picoseconds_; }
  friend constexpr bool operator!=(Time a, Time b) { return !(a == b); }

 private:
  int64_t picoseconds_ = 0;
};

inline Time Seconds(double seconds) { return Time(std::llround(static_cast<long double>(seconds) * 1e12L)); }
inline Time PicoSeconds(uint64_t picoseconds) { return Time(int64_t(picoseconds)); }

// A function without arguments, kept in place: none of the driver's is larger.
class Action {
 public:
  template <class Function>
  explicit Action(Function function) {
    static_assert(sizeof(Function) <= sizeof(room_) && alignof(Function) <= alignof(std::max_align_t));
    new (room_) Function(std::move(function));
    end_ = [](void *room, bool runs) {
      auto *own = static_cast<Function *>(room);
      if (runs) (*own)();
      own->~Function();
    };
  }
  Action(const Action &) = delete;

  // Once one of these, after which nothing is left of it.
  void run() { end_(room_, true); }
  void drop() { end_(room_, false); }

 private:
  alignas(std::max_align_t) unsigned char room_[48];
  void (*end_)(void *, bool);
};

// The pool of what is to happen, and a heap of four children a node over it.
class Agenda {
 public:
  struct Slot {
    alignas(Action) unsigned char action[sizeof(Action)];
    uint64_t number = 0;   // of the event that it holds; 0: none
    bool cancelled = false;
  };
  struct Due {
    int64_t at;
    uint64_t number;
    uint32_t slot;
    bool operator<(const Due &other) const { return at != other.at ? at < other.at : number < other.number; }
  };

  template <class Function>
  uint32_t add(Time at, Function function) {
    uint32_t slot;
    if (free_.empty()) {
      slot = slots.size();
      slots.emplace_back();
    } else {
      slot = free_.back();
      free_.pop_back();
    }
    new (slots[slot].action) Action(std::move(function));
    slots[slot].number = ++last;
    slots[slot].cancelled = false;
    heap_.push_back({at.picoseconds(), last, slot});
    size_t i = heap_.size() - 1;
    Due due = heap_[i];
    for (; i; i = (i - 1) / 4) {
      const Due &above = heap_[(i - 1) / 4];
      if (!(due < above)) break;
      heap_[i] = above;
    }
    heap_[i] = due;
    return slot;
  }

  bool empty() const { return heap_.empty(); }

  void run_next() {
    Due due = heap_.front(), rest = heap_.back();
    heap_.pop_back();
    size_t i = 0, size = heap_.size();
    while (size) {
      size_t child = 4 * i + 1;
      if (child >= size) break;
      size_t least = child, end = std::min(child + 4, size);
      for (++child; child < end; ++child) if (heap_[child] < heap_[least]) least = child;
      if (!(heap_[least] < rest)) break;
      heap_[i] = heap_[least];
      i = least;
    }
    if (size) heap_[i] = rest;
    now = due.at;
    ++done;
    Slot &slot = slots[due.slot];
    slot.number = 0;
    auto *action = std::launder(reinterpret_cast<Action *>(slot.action));
    if (slot.cancelled) action->drop();
    else action->run();
    free_.push_back(due.slot);
  }

  std::deque<Slot> slots;   // which stay where they are
  uint64_t last = 0, done = 0;
  int64_t now = 0;
  bool stopped = false;

 private:
  std::vector<Due> heap_;
  std::vector<uint32_t> free_;
};

inline Agenda &agenda() {
  static Agenda one;
  return one;
}

class EventId {
 public:
  EventId() = default;
  EventId(uint32_t slot, uint64_t number) : slot_(slot), number_(number) {}
  bool IsRunning() const { return number_ && agenda().slots[slot_].number == number_ && !agenda().slots[slot_].cancelled; }
  void Cancel() {
    if (IsRunning()) agenda().slots[slot_].cancelled = true;
  }

 private:
  uint32_t slot_ = 0;
  uint64_t number_ = 0;
};

struct Simulator {
  template <class Function>
  static EventId Schedule(Time delay, Function function) {
    uint32_t slot = agenda().add(Now() + delay, std::move(function));
    return {slot, agenda().last};
  }
  template <class Object>
  static EventId Schedule(Time delay, void (Object::*method)(), Object *object) {
    return Schedule(delay, [method, object] { (object->*method)(); });
  }
  static Time Now() { return Time(agenda().now); }
  static uint64_t GetEventCount() { return agenda().done; }
  static void Stop() { agenda().stopped = true; }
  static void Stop(Time delay) { Schedule(delay, [] { Stop(); }); }
  static void Run() {
    agenda().stopped = false;
    while (!agenda().empty() && !agenda().stopped) agenda().run_next();
  }
};

// A pointer that counts the references to its object, which has `references` and `release`.
template <class Object>
class Ptr {
 public:
  Ptr() = default;
  Ptr(std::nullptr_t) {}
  explicit Ptr(Object *object) : object_(object) { take(); }
  Ptr(const Ptr &other) : object_(other.object_) { take(); }
  Ptr(Ptr &&other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class Other, class = std::enable_if_t<std::is_convertible_v<Other *, Object *>>>
  Ptr(const Ptr<Other> &other) : object_(other.get()) { take(); }
  Ptr &operator=(Ptr other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ptr() {
    if (object_ && !--object_->references) object_->release();
  }
  Object *operator->() const { return object_; }
  Object &operator*() const { return *object_; }
  Object *get() const { return object_; }
  explicit operator bool() const { return object_; }
  bool operator!=(std::nullptr_t) const { return object_; }

 private:
  void take() {
    if (object_) ++object_->references;
  }
  Object *object_ = nullptr;
};

template <class Object>
Object *PeekPointer(const Ptr<Object> &pointer) {
  return pointer.get();
}

struct PppHeader {
  static constexpr uint32_t BYTES = 2;
  void SetProtocol(uint16_t) {}
};

class Packet {
 public:
  explicit Packet(uint32_t size) : size_(size) {}
  uint32_t GetSize() const { return size_; }
  void AddPacketTag(const Label &label) { label_ = label; }
  void ReplacePacketTag(const Label &label) { label_ = label; }
  void PeekPacketTag(Label &label) const { label = label_; }
  void AddHeader(const PppHeader &) { size_ += PppHeader::BYTES; }
  void RemoveHeader(const PppHeader &) { size_ -= PppHeader::BYTES; }
  void RemoveAtEnd(uint32_t bytes) { size_ -= bytes; }
  Ptr<Packet> Copy() const;

  mutable uint32_t references = 0;
  void release() const { pool().push_back(const_cast<Packet *>(this)); }
  static std::vector<Packet *> &pool() {
    static std::vector<Packet *> one;
    return one;
  }

 private:
  uint32_t size_;
  Label label_;
};

template <class Object>
Ptr<Object> Create(uint32_t size) {
  static_assert(std::is_same_v<Object, Packet>);
  auto &pool = Packet::pool();
  if (pool.empty()) return Ptr<Packet>(new Packet(size));
  Packet *packet = pool.back();
  pool.pop_back();
  *packet = Packet(size);
  return Ptr<Packet>(packet);
}

inline Ptr<Packet> Packet::Copy() const {
  Ptr<Packet> copy = Create<Packet>(size_);
  copy->label_ = label_;
  return copy;
}

template <class Object>
Ptr<Object> CreateObject() {
  return Ptr<Object>(new Object);
}

}  // namespace ns3
