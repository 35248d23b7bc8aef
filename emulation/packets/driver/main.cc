// The packet engine of `fairspine referee`: reads one plain text file (emulation/packets/input_file.py describes it), simulates,
// and writes the results as JSON. Devices and events are those of ns-3 (WITH_NS3) or of events.h, with equal results; queues are
// links.h, hosts transport.h.
#include "jobs.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>

struct Change {
  double at;
  uint32_t link;
  bool up;
};

static Spread spread_named(const std::string &name) {
  if (name == "pinned") return Spread::PINNED;
  if (name == "random") return Spread::RANDOM;
  if (name == "round_robin") return Spread::ROUND_ROBIN;
  if (name == "adaptive") return Spread::ADAPTIVE;
  if (name == "reps") return Spread::RECYCLED;
  throw std::runtime_error("unknown way to spread packets: " + name);
}

class Run {
 public:
  void read(std::istream &in) {
    std::string line;
    for (uint32_t number = 1; std::getline(in, line); ++number) {
      std::istringstream words(line);
      if (!take(words)) throw std::runtime_error("line " + std::to_string(number) + " cannot be read: " + line.substr(0, 60));
    }
  }

  void simulate() {
    network.deliver = [this](const Label &label) {
      if (label.kind == DATA || label.kind == TRIMMED) connections[label.connection]->data_arrived(label);
      else connections[label.connection]->ack_arrived(label);
    };
    if (settings.asks) jobs.changed = [this](const char *cause) { ask(cause); };
    std::map<double, std::vector<Change>> at;
    for (const Change &change : changes) at[change.at].push_back(change);
    for (auto &[when, which] : at) {
      ns3::Simulator::Schedule(ns3::Seconds(when), [this, these = which] {
        for (const Change &change : these) network.set_up(change.link, change.up);
        if (settings.asks) ask("links");
        for (auto &host : hosts) if (host) host->kick();
      });
    }
    if (settings.bin > 0) sample();
    jobs.begin();
    ns3::Simulator::Stop(ns3::Seconds(settings.until));
    ns3::Simulator::Run();
  }

  void write() const {
    std::printf("{\"ended\": %.12g, \"stalled\": %s, \"events\": %llu,\n", ns3::Simulator::Now().GetSeconds(), jobs.left ? "true" : "false",
                (unsigned long long)ns3::Simulator::GetEventCount());
    std::printf("\"epochs\": [");
    list(jobs.epochs, [](const Epoch &e) { std::printf("[%u, %u, %.12g, %.12g]", e.job, e.number, e.began, e.ended); });
    // Flow, delivered bytes, packets sent, of those again, trimmed, arrived twice, marked, timeouts.
    std::printf("],\n\"connections\": [");
    list(connections, [this](const std::unique_ptr<Connection> &c) {
      std::printf("[%u, %llu, %llu, %llu, %llu, %llu, %llu, %llu]", flow_of[&c - connections.data()], (unsigned long long)c->delivered_bytes,
                  (unsigned long long)c->sent_packets, (unsigned long long)c->sent_again, (unsigned long long)c->trimmed,
                  (unsigned long long)c->duplicates, (unsigned long long)c->marked, (unsigned long long)c->timeouts);
    });
    // Bytes carried, most bytes waiting, packets trimmed, packets dropped.
    std::printf("],\n\"links\": [");
    list(network.links, [](const Link &l) {
      std::printf("[%llu, %llu, %llu, %llu]", (unsigned long long)l.queue->carried, (unsigned long long)l.queue->most_bytes,
                  (unsigned long long)l.queue->trimmed, (unsigned long long)l.queue->dropped);
    });
    std::printf("],\n\"transfers\": [");
    list(jobs.delivered, [](const Delivered &d) { std::printf("[%u, %u, %u, %.12g, %.12g]", d.flow, d.group, d.run, d.began, d.ended); });
    std::printf("],\n\"bins\": [");
    list(samples_, [](const std::vector<uint64_t> &sample) {
      std::printf("[");
      list(sample, [](uint64_t bytes) { std::printf("%llu", (unsigned long long)bytes); });
      std::printf("]");
    });
    std::printf("]}\n");
  }

 private:
  template <class Items, class Print>
  static void list(const Items &items, Print print) {
    bool first = true;
    for (const auto &item : items) {
      if (!first) std::printf(",");
      first = false;
      print(item);
    }
  }

  bool take(std::istringstream &words) {
    std::string what;
    if (!(words >> what)) return true;
    if (what == "set") {
      std::string name;
      return words >> name && set(name, words);
    }
    if (what == "cable") {
      uint32_t a, b, there, back;
      double bps, delay;
      bool up;
      if (!(words >> a >> b >> there >> back >> bps >> delay >> up)) return false;
      network.add_cable(a, b, there, back, bps, delay, up);
      return true;
    }
    if (what == "job") {
      Job job;
      if (!(words >> job.compute >> job.epochs >> job.start)) return false;
      jobs.jobs.push_back(job);
      return true;
    }
    if (what == "group") {
      Group group;
      size_t count;
      if (!(words >> group.job >> group.runs >> group.delay >> group.lane >> group.on_receipt >> count)) return false;
      group.before.resize(count);
      for (uint32_t &before : group.before) if (!(words >> before)) return false;
      if (words >> count) group.posted_before.resize(count);
      for (uint32_t &before : group.posted_before) if (!(words >> before)) return false;
      jobs.groups.push_back(group);
      return group.job < jobs.jobs.size();
    }
    if (what == "flow") {
      Flow flow;
      std::string spread;
      if (!(words >> flow.key >> spread >> flow.source >> flow.sink)) return false;
      if (!(words >> flow.priority)) flow.priority = 0;
      if (flow.priority >= CLASSES) return false;
      flow.spread = spread_named(spread);
      jobs.flows.push_back(flow);
      return true;
    }
    if (what == "row") return take_row(words);
    if (what == "class") {
      uint32_t number, priority;
      if (!(words >> number >> priority) || number >= jobs.flows.size() || priority >= CLASSES) return false;
      Flow &flow = jobs.flows[number];
      flow.priority = priority;
      for (Row &row : flow.rows) {
        if (!row.connection) continue;
        row.connection->priority = priority;
        row.connection->source->compare_classes();
        changed_.push_back(row.connection);
      }
      return true;
    }
    if (what == "grid") {
      uint32_t job;
      Grid grid;
      if (!(words >> job >> grid.period >> grid.shift >> grid.hold) || job >= jobs.jobs.size()) return false;
      jobs.jobs[job].grid = grid;
      return true;
    }
    if (what == "pace") {
      uint32_t flow, number;
      double bps;
      if (!(words >> flow >> number >> bps) || flow >= jobs.flows.size() || number >= jobs.flows[flow].rows.size()) return false;
      jobs.flows[flow].rows[number].connection->set_pace(bps);
      changed_.push_back(jobs.flows[flow].rows[number].connection);
      return true;
    }
    if (what == "transfer") {
      uint32_t group;
      Transfer transfer;
      if (!(words >> group >> transfer.flow >> transfer.bytes)) return false;
      if (group >= jobs.groups.size() || transfer.flow >= jobs.flows.size()) return false;
      jobs.groups[group].transfers.push_back(transfer);
      return true;
    }
    if (what == "change") {
      Change change;
      if (!(words >> change.at >> change.link >> change.up)) return false;
      changes.push_back(change);
      return change.link < network.links.size();
    }
    return false;
  }

  // row FLOW NUMBER SHARE PACE_BPS PATHS, and each path: LINKS link...
  bool take_row(std::istringstream &words) {
    uint32_t flow_number, number;
    double share, pace;
    size_t n_paths;
    if (!(words >> flow_number >> number >> share >> pace >> n_paths) || flow_number >= jobs.flows.size()) return false;
    std::vector<Path> paths(n_paths);
    for (Path &path : paths) {
      size_t length;
      if (!(words >> length)) return false;
      path.resize(length);
      for (uint32_t &link : path) if (!(words >> link) || link >= network.links.size()) return false;
    }
    Flow &flow = jobs.flows[flow_number];
    if (number >= flow.rows.size()) flow.rows.resize(number + 1);
    Row &row = flow.rows[number];
    row.share = share;
    if (paths.empty()) return true;
    if (!row.connection) {
      connections.push_back(std::make_unique<Connection>(connections.size(), mix(flow.key, number), flow.spread, network, settings, flow.priority));
      flow_of.push_back(flow_number);
      row.connection = connections.back().get();
      network.routes.push_back(&row.connection->route);
      row.connection->source = host(flow.source, paths[0].front());
      row.connection->sink = host(flow.sink, network.links[paths[0].back()].reverse);
      row.connection->source->add(row.connection);
    }
    row.connection->set_paths(std::move(paths));
    row.connection->set_pace(pace);
    changed_.push_back(row.connection);
    return true;
  }

  bool set(const std::string &name, std::istringstream &words) {
    if (name == "mtu") return bool(words >> settings.mtu);
    if (name == "headers") return bool(words >> settings.headers);
    if (name == "ack_bytes") return bool(words >> settings.ack_bytes);
    if (name == "ack_every") return words >> settings.ack_every && settings.ack_every <= MOST_ACKED;
    if (name == "queue_bytes") return bool(words >> settings.queue_bytes);
    if (name == "mark_from") return bool(words >> settings.mark_from);
    if (name == "mark_all") return bool(words >> settings.mark_all);
    if (name == "window") return bool(words >> settings.window);
    if (name == "most_window") return bool(words >> settings.most_window);
    if (name == "pace_window") return bool(words >> settings.pace_window);
    if (name == "meter_bytes") return bool(words >> settings.meter_bytes);
    if (name == "timeout") return bool(words >> settings.timeout);
    if (name == "until") return bool(words >> settings.until);
    if (name == "bin") return bool(words >> settings.bin);
    if (name == "seed") return bool(words >> settings.seed);
    if (name == "record_transfers") return bool(words >> settings.record_transfers);
    if (name == "asks") return bool(words >> settings.asks);
    std::string value;
    if (!(words >> value)) return false;
    if (name == "control") {
      settings.control = value == "window" ? Control::WINDOW : Control::DCTCP;
      return value == "window" || value == "dctcp";
    }
    if (name == "recovery") {
      settings.recovery = value == "trim" ? Recovery::TRIM : value == "selective" ? Recovery::SELECTIVE : Recovery::GO_BACK_N;
      return value == "trim" || value == "selective" || value == "go_back_n";
    }
    return false;
  }

  Host *host(uint32_t node, uint32_t up_link) {
    if (node >= hosts.size()) hosts.resize(node + 1);
    if (!hosts[node]) hosts[node] = std::make_unique<Host>(network, up_link);
    return hosts[node].get();
  }

  // Ask for rows: "ask CAUSE SECONDS JOB..." with the jobs that are present; the answer is rows up to a line "go".
  void ask(const char *cause) {
    std::printf("ask %s %.12g", cause, ns3::Simulator::Now().GetSeconds());
    for (uint32_t j = 0; j < jobs.jobs.size(); ++j) if (jobs.jobs[j].present) std::printf(" %u", j);
    std::printf("\n");
    std::fflush(stdout);
    changed_.clear();
    std::string line;
    while (std::getline(std::cin, line) && line != "go") {
      std::istringstream words(line);
      if (!take(words)) throw std::runtime_error("an answer cannot be read: " + line.substr(0, 60));
    }
    // Hosts send when all have heard all of the answer, in an order that does not depend on that of the jobs.
    std::sort(changed_.begin(), changed_.end(), [](Connection *a, Connection *b) { return a->key() < b->key(); });
    for (Connection *connection : changed_) connection->source->kick();
  }

  void sample() {
    std::vector<uint64_t> carried;
    for (const Link &link : network.links) carried.push_back(link.queue->carried);
    samples_.push_back(std::move(carried));
    ns3::Simulator::Schedule(ns3::Seconds(settings.bin), [this] { sample(); });
  }

  Settings settings;
  Network network{settings};
  Jobs jobs{settings};
  std::vector<std::unique_ptr<Connection>> connections;
  std::vector<uint32_t> flow_of;   // by connection
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<Change> changes;
  std::vector<Connection *> changed_;   // by the present answer
  std::vector<std::vector<uint64_t>> samples_;
};

int main(int count, char **arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", arguments[0]);
    return 2;
  }
  try {
#ifdef WITH_NS3
    ns3::Time::SetResolution(ns3::Time::PS);
    ns3::GlobalValue::Bind("SchedulerType", ns3::TypeIdValue(ns3::TypeId::LookupByName("ns3::HeapScheduler")));
#endif
    std::ifstream file(arguments[1]);
    if (!file) throw std::runtime_error("the file cannot be read");
    auto run = std::make_unique<Run>();
    run->read(file);
    run->simulate();
    run->write();
    std::fflush(stdout);
    std::_Exit(0);  // ns-3 takes seconds to dispose of its objects one by one
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", arguments[1], error.what());
    return 1;
  }
}
