// Settings of a run, and the hash that stands for every random choice.
#pragma once

#include <cstdint>
#include <string>

enum class Control { DCTCP, WINDOW };
enum class Recovery { TRIM, SELECTIVE, GO_BACK_N };

struct Settings {
  uint32_t mtu = 4096;           // payload bytes of a full packet
  uint32_t headers = 82;         // bytes of a link's time that a packet takes beside its payload
  uint32_t ack_bytes = 84;       // of a link's time: the smallest Ethernet frame
  uint32_t ack_every = 4;        // packets for each acknowledgement
  uint64_t queue_bytes = 0;      // room for data at an output of a switch
  uint64_t mark_from = 0;        // bytes in the queue from which packets are marked,
  uint64_t mark_all = 0;         // and from which all are
  double window = 0;             // packets in flight at the start of a connection
  double most_window = 0;        // and at most
  double pace_window = 0;        // seconds of its pace that a connection may have in flight; 0: hosts keep paces
  uint64_t meter_bytes = 0;      // of the bucket of a connection's meter at its first switch; 0: hosts keep paces
  double timeout = 0;            // seconds without any acknowledgement
  double until = 1e9;            // simulated seconds
  double bin = 0;                // seconds of each sample of the links; 0: none
  uint64_t seed = 0;
  bool record_transfers = false;
  bool asks = false;             // ask for plans when jobs come or end and when links change
  Control control = Control::DCTCP;
  Recovery recovery = Recovery::TRIM;
};

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). Choices are hashes of what they concern, not draws from one stream, so
// that they do not depend on the order in which jobs are given.
inline uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}
inline uint64_t mix(uint64_t a, uint64_t b) { return mix(mix(a) ^ b); }
inline double unit(uint64_t hash) { return double(hash >> 11) * 0x1.0p-53; }
