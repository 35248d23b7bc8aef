// The two devices of a cable: each sends one packet after the other from its queue, and each packet arrives at the other end after
// the time of its bytes and the delay of the cable. Of ns-3 (WITH_NS3), or with the same times and order of events without it.
#pragma once

#include "links.h"

using Arrived = std::function<void(ns3::Ptr<const ns3::Packet>)>;

#ifdef WITH_NS3

class Device {
 public:
  Device(ns3::Ptr<OutputQueue> queue, double bps) : device_(ns3::CreateObject<ns3::PointToPointNetDevice>()) {
    device_->SetDataRate(ns3::DataRate(uint64_t(bps)));
    device_->SetMtu(65535);
    device_->SetAddress(ns3::Mac48Address());
    device_->SetNode(ns3::CreateObject<ns3::Node>());
    device_->SetQueue(queue);
  }

  static void connect(Device &a, Device &b, double delay, Arrived at_a, Arrived at_b) {
    auto channel = ns3::CreateObject<ns3::PointToPointChannel>();
    channel->SetAttribute("Delay", ns3::TimeValue(ns3::Seconds(delay)));
    a.attach(channel, std::move(at_a));
    b.attach(channel, std::move(at_b));
  }

  void send(ns3::Ptr<ns3::Packet> packet) { device_->Send(packet, ns3::Mac48Address(), 0x0800); }

 private:
  void attach(ns3::Ptr<ns3::PointToPointChannel> channel, Arrived arrived) {
    device_->Attach(channel);
    arrived_ = std::move(arrived);
    device_->SetReceiveCallback(ns3::MakeCallback(&Device::receive, this));
  }
  bool receive(ns3::Ptr<ns3::NetDevice>, ns3::Ptr<const ns3::Packet> packet, uint16_t, const ns3::Address &) {
    arrived_(packet);
    return true;
  }

  ns3::Ptr<ns3::PointToPointNetDevice> device_;
  Arrived arrived_;
};

#else

class Device {
 public:
  Device(ns3::Ptr<OutputQueue> queue, double bps) : queue_(queue), bps_(bps) {}

  static void connect(Device &a, Device &b, double delay, Arrived at_a, Arrived at_b) {
    a.peer_ = &b, b.peer_ = &a;
    a.delay_ = b.delay_ = ns3::Seconds(delay);
    a.arrived_ = std::move(at_a);
    b.arrived_ = std::move(at_b);
  }

  void send(ns3::Ptr<ns3::Packet> packet) {
    packet->AddHeader(ns3::PppHeader());
    if (queue_->Enqueue(std::move(packet)) && !busy_) next();
  }

 private:
  void next() {
    busy_ = false;
    ns3::Ptr<ns3::Packet> packet = queue_->Dequeue();
    if (!packet) return;
    busy_ = true;
    ns3::Time sent = ns3::Time(std::llround(packet->GetSize() * 8e12L / bps_));
    ns3::Simulator::Schedule(sent, [this] { next(); });
    ns3::Simulator::Schedule(sent + delay_, [to = peer_, packet] {
      packet->RemoveHeader(ns3::PppHeader());
      to->arrived_(packet);
    });
  }

  ns3::Ptr<OutputQueue> queue_;
  double bps_;
  ns3::Time delay_{0};
  Device *peer_ = nullptr;
  Arrived arrived_;
  bool busy_ = false;
};

#endif
