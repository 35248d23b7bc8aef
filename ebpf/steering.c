/* A program of tc (egress) that gives each packet the carrier of its flow.
 *
 * A route of the agent has put an IPv6 header before the packet already (SRv6, H.Encaps.Red, RFC 8986), whose
 * destination is the carrier of the first flow to its host. This program writes that of the packet's own flow over it.
 * The class of priority in the mark is set as DSCP of both headers: the kernel leaves that of the outer one 0 for IPv4.
 * Keys are those of the agent's maps of nftables, so that both ways of steering hold the same (agent/linux/kernel.py).
 */

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/in6.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FLOWS (1 << 18)
#define OTHERS (1 << 16)
#define SPREAD_BASE 0xfb000000
#define SPREAD_MASK 0xff000000
#define MARK_BASE 0xfa000000
#define MARK_MASK 0xfe000000   /* of both bases */
#define CLASS_SHIFT 22
#define CLASS_BITS 3
#define SLOTS 128         /* of a mark whose packets are spread: a power of two */
#define LATER_FRAGMENT 0x1fff
#define IN_IPV4 4
#define IN_IPV6 41
#define ROUTING 43

struct ports { __u8 protocol, unused[3]; __be16 src, unused_src, dst, unused_dst; };
struct key4 { __be32 src, dst; struct ports ports; };
struct key6 { struct in6_addr src, dst; struct ports ports; };
struct flow { __u32 mark, unused; __u64 packets, bytes; };
struct slot { __u32 mark, number; };

#define MAP(name, key_type, value_type, entries) \
  struct { \
    __uint(type, BPF_MAP_TYPE_HASH); \
    __uint(map_flags, BPF_F_NO_PREALLOC); \
    __uint(max_entries, entries); \
    __type(key, key_type); \
    __type(value, value_type); \
  } name SEC(".maps")

MAP(flows4, struct key4, struct flow, FLOWS);
MAP(flows6, struct key6, struct flow, FLOWS);
MAP(pairs4, __be32, __u32, OTHERS);
MAP(pairs6, struct in6_addr, __u32, OTHERS);
MAP(carriers, __u32, struct in6_addr, OTHERS);
MAP(slots, struct slot, struct in6_addr, FLOWS);

/* Return the mark of a flow, and count the packet; 0: it is none of the map. */
static __always_inline __u32 marked(struct flow *flow, __u64 bytes) {
  if (!flow)
    return 0;
  __sync_fetch_and_add(&flow->packets, 1);
  __sync_fetch_and_add(&flow->bytes, bytes);
  return flow->mark;
}

/* Read protocol and ports of a packet whose header ends at `at`; other protocols have no flows. */
static __always_inline int read_ports(struct __sk_buff *packet, __u32 at, __u8 protocol, struct ports *ports) {
  __be16 both[2];
  if (protocol != IPPROTO_TCP && protocol != IPPROTO_UDP)
    return 0;
  if (bpf_skb_load_bytes(packet, at, both, sizeof both))
    return 0;
  ports->protocol = protocol;
  ports->src = both[0];
  ports->dst = both[1];
  return 1;
}

static __always_inline __u32 mark_of_ipv4(struct __sk_buff *packet, __u32 at) {
  struct iphdr inner;
  struct key4 key = {};
  __u32 mark = 0, *pair;
  if (bpf_skb_load_bytes(packet, at, &inner, sizeof inner))
    return 0;
  key.src = inner.saddr;
  key.dst = inner.daddr;
  if (!(inner.frag_off & bpf_htons(LATER_FRAGMENT)) && read_ports(packet, at + inner.ihl * 4, inner.protocol, &key.ports))
    mark = marked(bpf_map_lookup_elem(&flows4, &key), packet->len - at);
  if (mark)
    return mark;
  pair = bpf_map_lookup_elem(&pairs4, &key.dst);
  return pair ? *pair : 0;
}

static __always_inline __u32 mark_of_ipv6(struct __sk_buff *packet, __u32 at) {
  struct ipv6hdr inner;
  struct key6 key = {};
  __u32 mark = 0, *pair;
  if (bpf_skb_load_bytes(packet, at, &inner, sizeof inner))
    return 0;
  key.src = inner.saddr;
  key.dst = inner.daddr;
  if (read_ports(packet, at + sizeof inner, inner.nexthdr, &key.ports))
    mark = marked(bpf_map_lookup_elem(&flows6, &key), packet->len - at);
  if (mark)
    return mark;
  pair = bpf_map_lookup_elem(&pairs6, &key.dst);
  return pair ? *pair : 0;
}

/* Write a DSCP into the traffic class of an IPv6 header, and keep its bits of congestion notification. */
static __always_inline void mark_ipv6(struct __sk_buff *packet, __u32 at, __u32 code_point) {
  __u8 first[2];
  if (bpf_skb_load_bytes(packet, at, first, sizeof first))
    return;
  first[0] = (first[0] & 0xf0) | (code_point >> 2);
  first[1] = (first[1] & 0x3f) | (code_point << 6);
  bpf_skb_store_bytes(packet, at, first, sizeof first, 0);
}

static __always_inline void mark_ipv4(struct __sk_buff *packet, __u32 at, __u32 code_point) {
  __u8 before[2], after[2];
  __be16 from, to;
  if (bpf_skb_load_bytes(packet, at, before, sizeof before))
    return;
  after[0] = before[0];
  after[1] = (before[1] & 3) | (code_point << 2);
  __builtin_memcpy(&from, before, sizeof from);
  __builtin_memcpy(&to, after, sizeof to);
  bpf_l3_csum_replace(packet, at + __builtin_offsetof(struct iphdr, check), from, to, sizeof to);
  bpf_skb_store_bytes(packet, at, after, sizeof after, 0);
}

/* Mark a packet by the class of priority in the mark of its flow; class 0 is left as it is. */
static __always_inline void mark_class(struct __sk_buff *packet, __u32 at, __u8 within, __u32 mark) {
  __u32 priority = (mark & MARK_MASK) == MARK_BASE ? mark >> CLASS_SHIFT & CLASS_BITS : 0, code_point;
  if (!priority)
    return;
  code_point = priority == 1 ? 16 : priority == 2 ? 24 : 32;   /* controller/model/priority.py */
  mark_ipv6(packet, ETH_HLEN, code_point);
  if (within == IN_IPV4)
    mark_ipv4(packet, at, code_point);
  else
    mark_ipv6(packet, at, code_point);
}

SEC("tc")
int fairspine_steer(struct __sk_buff *packet) {
  struct ipv6hdr outer;
  struct ipv6_opt_hdr routing;
  struct in6_addr *carrier;
  __u32 at = ETH_HLEN + sizeof outer, mark;
  __u8 within;
  if (packet->protocol != bpf_htons(ETH_P_IPV6) || bpf_skb_load_bytes(packet, ETH_HLEN, &outer, sizeof outer))
    return TC_ACT_UNSPEC;
  within = outer.nexthdr;
  if (within == ROUTING) {
    if (bpf_skb_load_bytes(packet, at, &routing, sizeof routing))
      return TC_ACT_UNSPEC;
    within = routing.nexthdr;
    at += 8 + routing.hdrlen * 8;
  }
  if (within == IN_IPV4)
    mark = mark_of_ipv4(packet, at);
  else if (within == IN_IPV6)
    mark = mark_of_ipv6(packet, at);
  else
    return TC_ACT_UNSPEC;
  if ((mark & SPREAD_MASK) == SPREAD_BASE) {
    struct slot slot = {mark, bpf_get_prandom_u32() % SLOTS};
    carrier = bpf_map_lookup_elem(&slots, &slot);
  } else {
    carrier = bpf_map_lookup_elem(&carriers, &mark);
  }
  if (carrier)   /* IPv6 has no checksum of its own, and none of the packet inside has this address. */
    bpf_skb_store_bytes(packet, ETH_HLEN + __builtin_offsetof(struct ipv6hdr, daddr), carrier, sizeof *carrier, 0);
  mark_class(packet, at, within, mark);
  return TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Apache-2.0";
