// Jobs: groups of transfers that wait for each other, computing between them, and epochs.
#pragma once

#include "transport.h"

#include <cmath>
#include <map>

struct Row {
  Connection *connection = nullptr;
  double share = 0;
};

// The bytes that one host sends another: its rows are its connections and the part of the bytes on each.
struct Flow {
  uint64_t key = 0;
  Spread spread = Spread::PINNED;
  uint32_t source = 0, sink = 0;
  uint32_t priority = 0;  // class of its packets
  std::vector<Row> rows;
};

struct Transfer {
  uint32_t flow;
  uint64_t bytes;
};

struct Group {
  uint32_t job = 0;
  uint32_t runs = 1;
  double delay = 0;
  int32_t lane = -1;
  bool on_receipt = false;   // a host begins its next run when it has received the last one, not when all have
  std::vector<uint32_t> before, after;
  std::vector<uint32_t> posted_before, posted_after;   // of the same flows: waits only until those are handed to the connections
  std::vector<Transfer> transfers;
  // Of the present epoch.
  uint32_t waits_for = 0, run = 0;
  uint64_t missing = 0;
  struct Member {
    std::vector<uint32_t> sends, got;
    uint32_t receives = 0, next = 0;
    bool only_sends = false;   // it begins its next run when its last one has arrived
  };
  std::map<uint32_t, Member> members;
};

struct Epoch {
  uint32_t job, number;
  double began, ended;
};

// Times at which iterations begin: shift + k * period (controller/model/timing.py, IterationGrid).
struct Grid {
  double period = 0, shift = 0;   // no period: iterations begin at once
  bool hold = false;

  bool operator==(const Grid &other) const { return period == other.period && shift == other.shift && hold == other.hold; }

  double first(double now) const { return at(std::ceil((now - shift) / period - ROUNDING), now); }
  double after(double ended) const { return hold ? at(std::floor((ended - shift) / period + 0.5 + ROUNDING), ended) : ended; }

 private:
  static constexpr double ROUNDING = 1e-9;
  double at(double number, double earliest) const { return std::max(earliest, shift + number * period); }
};

struct Job {
  double compute = 0, start = 0;
  uint32_t epochs = 1;
  std::vector<uint32_t> groups;
  // Now.
  uint32_t epoch = 0, left = 0;
  double began = 0;
  ns3::Time sends_from{0};
  bool present = false;
  Grid grid, followed;
};

struct Delivery {
  uint32_t flow, group, run, missing;
  double began;
};

struct Delivered {
  uint32_t flow, group, run;
  double began, ended;
};

class Jobs {
 public:
  explicit Jobs(const Settings &settings) : settings_(settings) {}

  std::vector<Job> jobs;
  std::vector<Group> groups;
  std::vector<Flow> flows;
  std::vector<Epoch> epochs;
  std::vector<Delivered> delivered;
  uint32_t left = 0;
  std::function<void(const char *)> changed;   // a job has come or ended

  void begin() {
    left = jobs.size();
    for (uint32_t g = 0; g < groups.size(); ++g) {
      jobs[groups[g].job].groups.push_back(g);
      for (uint32_t before : groups[g].before) groups[before].after.push_back(g);
      for (uint32_t before : groups[g].posted_before) groups[before].posted_after.push_back(g);
    }
    std::map<double, std::vector<uint32_t>> starts;
    for (uint32_t j = 0; j < jobs.size(); ++j) starts[jobs[j].start].push_back(j);
    for (auto &[at, which] : starts) {
      ns3::Simulator::Schedule(ns3::Seconds(at), [this, these = which] {
        for (uint32_t j : these) jobs[j].present = true;
        if (changed) changed("arrival");
        for (uint32_t j : these) compute(j);
      });
    }
  }

 private:
  static double now() { return ns3::Simulator::Now().GetSeconds(); }

  void compute(uint32_t j) {
    Job &job = jobs[j];
    double begin = now();
    if (job.grid.period > 0) begin = job.grid == job.followed ? job.grid.after(begin) : job.grid.first(begin);
    job.followed = job.grid;
    ns3::Simulator::Schedule(ns3::Seconds(begin - now() + job.compute), [this, j] { communicate(j); });
  }

  void communicate(uint32_t j) {
    Job &job = jobs[j];
    job.began = now();
    job.sends_from = ns3::Simulator::Now();
    job.left = job.groups.size();
    for (uint32_t g : job.groups) groups[g].waits_for = groups[g].before.size() + groups[g].posted_before.size();
    if (!job.left) return epoch_ended(j);
    for (uint32_t g : job.groups) if (!groups[g].waits_for) ready(g);
  }

  void ready(uint32_t g) {
    Group &group = groups[g];
    double at = now();
    if (group.lane >= 0 && group.delay > 0) {
      double &free = lanes_[{group.job, group.lane}];
      free = at = std::max(free, at) + group.delay;
    } else {
      at += group.delay;
    }
    // At least an event of its own: chains of empty groups must not be a recursion.
    ns3::Simulator::Schedule(ns3::Seconds(at - now()), [this, g] { start(g); });
  }

  void start(uint32_t g) {
    Group &group = groups[g];
    group.run = 0;
    if (group.transfers.empty()) return finished(g);
    if (!group.on_receipt) {
      start_run(g);
      for (uint32_t after : group.posted_after) if (!--groups[after].waits_for) ready(after);
      return;
    }
    group.missing = uint64_t(group.transfers.size()) * group.runs;
    group.members.clear();
    for (uint32_t t = 0; t < group.transfers.size(); ++t) {
      const Flow &flow = flows[group.transfers[t].flow];
      group.members[flow.source].sends.push_back(t);
      ++group.members[flow.sink].receives;
    }
    for (auto &[host, member] : group.members) {
      member.only_sends = !member.receives;
      if (member.only_sends) member.receives = member.sends.size();
      member.got.assign(group.runs, 0);
    }
    for (auto &[host, member] : group.members) {
      member.next = 1;
      for (uint32_t t : member.sends) send(g, t, 0);
    }
  }

  void start_run(uint32_t g) {
    groups[g].missing = groups[g].transfers.size();
    for (uint32_t t = 0; t < groups[g].transfers.size(); ++t) send(g, t, groups[g].run);
  }

  void send(uint32_t g, uint32_t t, uint32_t run) {
    const Transfer &transfer = groups[g].transfers[t];
    const Flow &flow = flows[transfer.flow];
    std::vector<std::pair<Connection *, uint64_t>> parts;
    uint64_t rest = transfer.bytes;
    double shares = 0;
    for (const Row &row : flow.rows) shares += row.share;
    for (const Row &row : flow.rows) {
      if (row.share <= 0) continue;
      uint64_t bytes = std::min<uint64_t>(rest, std::llround(transfer.bytes * row.share / shares));
      if (bytes) parts.push_back({row.connection, bytes});
      rest -= bytes;
    }
    if (parts.empty()) return;   // without a path: it waits for ever, as in the fluid simulator
    parts.back().second += rest;
    auto delivery = std::make_shared<Delivery>(Delivery{transfer.flow, g, run, uint32_t(parts.size()), now()});
    for (auto &[connection, bytes] : parts) {
      auto post = [this, delivery, to = connection, size = bytes] {
        to->post(size, [this, delivery] { if (!--delivery->missing) transfer_ended(*delivery); });
      };
      // Hosts do not begin an epoch at the same picosecond: up to the time of one packet later, by a hash. Later on they
      // differ by what they receive.
      const Job &job = jobs[groups[g].job];
      ns3::Time begin = job.sends_from + ns3::PicoSeconds(mix(connection->key(), job.epoch) % 300000);
      if (begin > ns3::Simulator::Now()) ns3::Simulator::Schedule(begin - ns3::Simulator::Now(), post);
      else post();
    }
  }

  void transfer_ended(const Delivery &delivery) {
    if (settings_.record_transfers) delivered.push_back({delivery.flow, delivery.group, delivery.run, delivery.began, now()});
    uint32_t g = delivery.group;
    Group &group = groups[g];
    --group.missing;
    if (!group.on_receipt) {
      if (group.missing) return;
      if (++group.run < group.runs) return start_run(g);
      return finished(g);
    }
    if (!group.missing) return finished(g);
    const Flow &flow = flows[delivery.flow];
    received(g, flow.sink, delivery.run, true);
    received(g, flow.source, delivery.run, false);
  }

  void received(uint32_t g, uint32_t host, uint32_t run, bool by_sink) {
    Group &group = groups[g];
    Group::Member &member = group.members[host];
    if (by_sink == member.only_sends) return;
    ++member.got[run];
    while (member.next < group.runs && member.got[member.next - 1] == member.receives) {
      uint32_t next = member.next++;
      for (uint32_t t : member.sends) send(g, t, next);
    }
  }

  void finished(uint32_t g) {
    for (uint32_t after : groups[g].after) if (!--groups[after].waits_for) ready(after);
    uint32_t j = groups[g].job;
    if (!--jobs[j].left) epoch_ended(j);
  }

  void epoch_ended(uint32_t j) {
    Job &job = jobs[j];
    epochs.push_back({j, job.epoch++, job.began, now()});
    if (job.epoch < job.epochs) return compute(j);
    job.present = false;
    if (!--left) ns3::Simulator::Stop();
    else if (changed) changed("end");
  }

  const Settings &settings_;
  std::map<std::pair<uint32_t, int32_t>, double> lanes_;
};
