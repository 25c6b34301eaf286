// See plan_report.hpp.
#include "plan_report.hpp"

#include "quern/graph/json_writer.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace quern::runtime {
namespace {

constexpr double most_alone = 0.1;  // of a step's bytes, without a sentence about it

/// The layer that a node belongs to by its name, "blk.3.attn_norm"; none: it stands before or behind the layers.
std::optional<std::uint32_t> layer_of(const std::string& node) {
  if (!node.starts_with("blk.")) return std::nullopt;
  std::uint32_t layer = 0;
  std::size_t at = 4;
  for (; at < node.size() && node[at] >= '0' && node[at] <= '9' && at < 13; ++at)
    layer = layer * 10 + static_cast<std::uint32_t>(node[at] - '0');
  return at > 4 ? std::optional(layer) : std::nullopt;
}

/// Bytes of a value in a step of these rows.
double bytes_of(const graph::Graph& graph, graph::ValueId id, std::int64_t rows) {
  graph::Shape shape = graph.value(id).shape;
  double share = 1;
  for (graph::Dim& d : shape)
    if (d.symbol != 0 && d.size > 0) share *= static_cast<double>(std::min<std::int64_t>(rows, d.size)) / static_cast<double>(d.size);
  return share * static_cast<double>(graph::byte_size(graph.value(id).dtype, shape));
}

/// Bytes that a node reads in a step of these rows.
double bytes_read(const graph::Graph& graph, const graph::Node& node, std::int64_t rows) {
  double bytes = 0;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const graph::ValueId id = node.inputs[i];
    if (id == graph::no_value) continue;
    const std::uint32_t kind = graph.value(graph.root(id)).kind;
    if (kind == QUERN_VALUE_STATE) continue;
    double share = 1;
    const graph::Shape& shape = graph.value(id).shape;
    if (node.op == QUERN_OP_GET_ROWS && i == 0 && !shape.empty()) {  // the rows that are asked for
      share = static_cast<double>(rows) / static_cast<double>(std::max<std::int64_t>(1, shape[0].size));
    } else if (node.op == QUERN_OP_MATMUL_ID && i == 1 && shape.size() == 3) {  // the experts that are chosen
      const graph::Shape& chosen = graph.value(node.inputs[2]).shape;
      const double used = chosen.empty() ? 1 : static_cast<double>(chosen.back().size) * static_cast<double>(rows);
      share = used / static_cast<double>(std::max<std::int64_t>(1, shape[0].size));
    }
    bytes += std::min(1.0, share) * bytes_of(graph, id, rows);
  }
  return bytes;
}

bool serves(const ScheduleUse& schedule, std::uint32_t rows, std::int64_t count) {
  if (schedule.symbol == QUERN_NONE) return true;
  const bool kind = schedule.rows == QUERN_ROWS_ANY || rows == QUERN_ROWS_ANY || schedule.rows == rows;
  return kind && schedule.least <= count && count <= schedule.most;
}

/// One schedule of each part that a device has, for the same rows, together.
ScheduleReport together(const std::vector<std::pair<const graph::Graph*, const ScheduleUse*>>& parts, std::uint32_t rows,
                        std::int64_t least, std::int64_t most) {
  ScheduleReport report;
  report.rows = rows;
  report.least = least;
  report.most = most;
  double all = 0;
  std::uint32_t in_layers = 0;
  std::set<std::uint32_t> layers;
  std::map<std::tuple<std::string, std::string, bool>, AloneGroup> groups;
  const std::int64_t count = std::max<std::int64_t>(1, least);
  for (const auto& [graph, schedule] : parts) {
    for (const graph::Node& node : graph->nodes()) {
      all += bytes_read(*graph, node, count);
      if (const auto layer = layer_of(node.name)) layers.insert(*layer);
    }
    report.kernels += static_cast<std::uint32_t>(schedule->kernels.size());
    for (const KernelUse& kernel : schedule->kernels)
      if (kernel.first_node < graph->nodes().size() && layer_of(graph->nodes()[kernel.first_node].name)) ++in_layers;
    for (const AloneNode& alone : schedule->alone) {
      if (alone.node >= graph->nodes().size()) continue;
      const graph::Node& node = graph->nodes()[alone.node];
      AloneGroup& group = groups[{alone.rule, alone.reason, alone.complete}];
      if (group.nodes++ == 0) group.first = node.name;
      group.rule = alone.rule;
      group.reason = alone.reason;
      group.complete = alone.complete;
      group.share += bytes_read(*graph, node, count);
      std::string op = graph::op_name(node.op);
      if (std::ranges::find(group.ops, op) == group.ops.end()) group.ops.push_back(std::move(op));
    }
  }
  if (!layers.empty()) report.kernels_a_layer = static_cast<double>(in_layers) / static_cast<double>(layers.size());
  for (auto& [key, group] : groups) {
    group.share = all > 0 ? group.share / all : 0;
    if (!group.complete) report.alone_share += group.share;
    report.alone.push_back(std::move(group));
  }
  std::ranges::stable_sort(report.alone, [](const AloneGroup& a, const AloneGroup& b) { return a.share > b.share; });
  return report;
}

DeviceReport device_report(std::string label, const std::vector<Program::ToldPart>& parts) {
  DeviceReport report;
  report.device = std::move(label);
  report.told = !parts.empty() && std::ranges::none_of(parts, [](const auto& part) { return part.schedules.empty(); });
  for (const Program::ToldPart& part : parts) report.nodes += static_cast<std::uint32_t>(part.graph->nodes().size());
  if (!report.told) return report;
  // The ranges of rows are those of the part that has most of them; of every other part the schedule that serves their least.
  const auto& main = *std::ranges::max_element(parts, {}, [](const auto& part) { return part.schedules.size(); });
  for (const ScheduleUse& of : main.schedules) {
    std::vector<std::pair<const graph::Graph*, const ScheduleUse*>> chosen;
    for (const Program::ToldPart& part : parts) {
      const auto found = std::ranges::find_if(part.schedules, [&](const ScheduleUse& s) { return &s == &of; });
      const auto serving = found != part.schedules.end()
                               ? found
                               : std::ranges::find_if(part.schedules, [&](const ScheduleUse& s) { return serves(s, of.rows, of.least); });
      if (serving != part.schedules.end()) chosen.push_back({part.graph, &*serving});
    }
    report.schedules.push_back(together(chosen, of.rows, of.least, of.most));
  }
  if (!report.schedules.empty()) {
    const auto fewest = std::ranges::min_element(report.schedules, {}, &ScheduleReport::least);
    report.alone_share = fewest->alone_share;
  }
  return report;
}

const char* rows_word(std::uint32_t rows) {
  return rows == QUERN_ROWS_OF_SEQUENCES ? "a row a sequence" : rows == QUERN_ROWS_OF_ONE_SEQUENCE ? "one sequence" : "any";
}

std::string rows_words(const ScheduleReport& schedule) {
  if (schedule.most == 0) return "any number of rows";
  std::string words = schedule.least == schedule.most ? concat(schedule.least, schedule.least == 1 ? " row" : " rows")
                                                      : concat(schedule.least, " to ", schedule.most, " rows");
  if (schedule.rows != QUERN_ROWS_ANY) words += concat(", ", rows_word(schedule.rows));
  return words;
}

/// "12.5", "5".
std::string number_words(double number, int digits) {
  const double scale = std::pow(10, digits);
  const auto rounded = static_cast<std::int64_t>(std::llround(number * scale));
  std::string text = std::to_string(rounded / static_cast<std::int64_t>(scale));
  if (const std::int64_t rest = rounded % static_cast<std::int64_t>(scale); rest != 0) {
    std::string decimals = std::to_string(rest);
    decimals.insert(0, static_cast<std::size_t>(digits) - decimals.size(), '0');
    while (decimals.ends_with('0')) decimals.pop_back();
    text += concat(".", decimals);
  }
  return text;
}

std::string percent(double share) { return share > 0 && share < 0.0005 ? "less than 0.1 %" : concat(number_words(100 * share, 1), " %"); }
std::string counted_nodes(std::uint32_t nodes) { return concat(nodes, nodes == 1 ? " node" : " nodes"); }

std::string group_words(const AloneGroup& group) {
  std::string ops;
  for (const std::string& op : group.ops) ops += concat(ops.empty() ? "" : ", ", op);
  return concat(group.nodes, " x ", ops, " (", group.nodes > 1 ? "first " : "", group.first, "), ", percent(group.share), ": ",
                group.rule.empty() ? std::string() : concat("rule '", group.rule, "': "), group.reason);
}

}  // namespace

std::vector<DeviceReport> plan_report(const Program& program) {
  std::vector<std::vector<Program::ToldPart>> parts(program.devices().size());
  for (Program::ToldPart& part : program.told_parts()) parts[part.device].push_back(std::move(part));
  std::vector<DeviceReport> report;
  for (std::size_t d = 0; d < parts.size(); ++d)
    if (!parts[d].empty()) report.push_back(device_report(program.devices()[d]->device()->label(), parts[d]));
  return report;
}

std::string words_of(const std::vector<DeviceReport>& report) {
  std::string text;
  for (const DeviceReport& device : report) {
    if (!device.told) {
      text += concat(device.device, ": ", counted_nodes(device.nodes), "; its plugin gives no list of schedules\n");
      continue;
    }
    text += concat(device.device, ": ", counted_nodes(device.nodes), "\n");
    const ScheduleReport* worst = nullptr;
    for (const ScheduleReport& schedule : device.schedules) {
      text += concat("  ", rows_words(schedule), ": ", schedule.kernels, schedule.kernels == 1 ? " kernel" : " kernels");
      if (schedule.kernels_a_layer) text += concat(", ", number_words(*schedule.kernels_a_layer, 1), " a layer");
      std::uint32_t alone = 0, complete = 0;
      for (const AloneGroup& group : schedule.alone) (group.complete ? complete : alone) += group.nodes;
      text += alone == 0 ? "; no node fell off"
                         : concat("; ", counted_nodes(alone), alone == 1 ? " stands alone and reads " : " stand alone and read ",
                                  percent(schedule.alone_share), " of the bytes");
      if (complete > 0) text += concat("; ", counted_nodes(complete), " had nothing beside ", complete == 1 ? "it" : "them", " to join");
      text += "\n";
      for (const AloneGroup& group : schedule.alone)
        if (!group.complete) text += concat("    ", group_words(group), "\n");
      if (schedule.alone_share > most_alone && (worst == nullptr || schedule.alone_share > worst->alone_share)) worst = &schedule;
    }
    if (worst == nullptr) continue;
    const auto first = std::ranges::find_if(worst->alone, [](const AloneGroup& group) { return !group.complete; });
    text += concat(device.device, ": nodes that stand alone read ", percent(worst->alone_share), " of the bytes of a step of ",
                   rows_words(*worst), ". Most likely they take as much of its time, which was not measured node by node. ",
                   "What the reasons name keeps them from being fused; most of it is ", group_words(*first), "\n");
  }
  return text;
}

std::string json_of(const std::vector<DeviceReport>& report) {
  JsonWriter json;
  json.begin_object();
  json.key("devices");
  json.begin_array();
  for (const DeviceReport& device : report) {
    json.begin_object();
    json.member("device", device.device);
    json.member("told", device.told);
    json.member("nodes", device.nodes);
    json.member("alone_share", device.alone_share);
    json.key("schedules");
    json.begin_array();
    for (const ScheduleReport& schedule : device.schedules) {
      json.begin_object();
      json.member("rows", rows_word(schedule.rows));
      json.member("least", schedule.least);
      json.member("most", schedule.most);
      json.member("kernels", schedule.kernels);
      json.member("kernels_a_layer", schedule.kernels_a_layer);
      json.member("alone_share", schedule.alone_share);
      json.key("alone");
      json.begin_array();
      for (const AloneGroup& group : schedule.alone) {
        json.begin_object();
        json.member("rule", group.rule);
        json.member("reason", group.reason);
        json.member("complete", group.complete);
        json.member("nodes", group.nodes);
        json.member("ops", group.ops);
        json.member("first", group.first);
        json.member("share", group.share);
        json.end_object();
      }
      json.end_array();
      json.end_object();
    }
    json.end_array();
    json.end_object();
  }
  json.end_array();
  json.end_object();
  return json.take();
}

}  // namespace quern::runtime
