// The meter of a connection at its first switch: a bucket of tokens that fills at the pace; a packet without enough tokens is dropped.
#pragma once

#include "links.h"

// As the virtual scheduling algorithm of ITU-T I.371, annex A, which has the same results: times alone, which are exact.
class Meter {
 public:
  // Another pace, in bit/s (0: everything passes), and a full bucket, as where a switch changes a meter.
  void set(double bps) {
    if (bps == bps_) return;
    bps_ = bps;
    full_at_ = ns3::Time(0);
  }

  bool passes(uint32_t bytes, uint64_t bucket) {
    if (bps_ <= 0) return true;
    ns3::Time now = ns3::Simulator::Now(), after = std::max(full_at_, now) + ns3::Seconds(bytes * 8.0 / bps_);
    if (after > now + ns3::Seconds(bucket * 8.0 / bps_)) return false;
    full_at_ = after;
    return true;
  }

 private:
  double bps_ = 0;
  ns3::Time full_at_{0};  // when the bucket will be full
};
