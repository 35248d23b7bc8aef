// What a packet says of itself, as a packet tag of ns-3: it is not on the wire and takes no room there.
#pragma once

#ifdef WITH_NS3
#include "ns3/packet.h"
#include "ns3/tag.h"
#endif

#include <cstdint>
#include <cstring>

enum Kind : uint8_t { DATA, TRIMMED, ACK, NACK };

constexpr uint32_t MOST_ACKED = 8;  // packets that one acknowledgement can name
constexpr uint32_t MARKED = 1u << 31;  // in an entry of `acked`: the packet had met congestion

class Label
#ifdef WITH_NS3
    : public ns3::Tag
#endif
{
 public:
  uint32_t connection = 0;
  uint32_t path = 0;   // number of the path in the connection
  uint32_t psn = 0;    // of data; of an acknowledgement: all packets before it have arrived
  uint8_t kind = DATA;
  uint8_t marked = 0;  // ECN
  uint8_t wants_ack = 0;
  uint8_t count = 0;   // entries of `acked`
  uint8_t priority = 0;  // class of the packet
  uint32_t acked[MOST_ACKED] = {};

#ifdef WITH_NS3
  static ns3::TypeId GetTypeId() {
    static ns3::TypeId id = ns3::TypeId("fairspine::Label").SetParent<ns3::Tag>().AddConstructor<Label>();
    return id;
  }
  ns3::TypeId GetInstanceTypeId() const override { return GetTypeId(); }
  uint32_t GetSerializedSize() const override { return FIXED + 4 * count; }
  void Serialize(ns3::TagBuffer to) const override {
    uint8_t bytes[FIXED + 4 * MOST_ACKED];
    std::memcpy(bytes, &connection, 4);
    std::memcpy(bytes + 4, &path, 4);
    std::memcpy(bytes + 8, &psn, 4);
    bytes[12] = kind, bytes[13] = marked, bytes[14] = wants_ack, bytes[15] = count;
    bytes[16] = priority;
    std::memcpy(bytes + FIXED, acked, 4 * count);
    to.Write(bytes, FIXED + 4 * count);
  }
  void Deserialize(ns3::TagBuffer from) override {
    uint8_t bytes[FIXED];
    from.Read(bytes, FIXED);
    std::memcpy(&connection, bytes, 4);
    std::memcpy(&path, bytes + 4, 4);
    std::memcpy(&psn, bytes + 8, 4);
    kind = bytes[12], marked = bytes[13], wants_ack = bytes[14], count = bytes[15], priority = bytes[16];
    if (count) from.Read(reinterpret_cast<uint8_t *>(acked), 4 * count);
  }
  void Print(std::ostream &out) const override { out << "connection " << connection << " psn " << psn; }

 private:
  static constexpr uint32_t FIXED = 17;
#endif
};
