// The limit of what a program can do that reads every record: counts kernels and adds up their
// durations with simdjson's on-demand parser, on one core, building nothing.
//
//     g++ -O3 -march=native simdjson.cpp -lsimdjson -o simdjson && ./simdjson TRACE
//
// With a number of times behind it, it reads the text in memory so often, and says how long each
// time took, s; and again for a whole document (`dom::parser`) in memory that is used again.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <simdjson.h>

using namespace simdjson;

struct Found {
  long kernels = 0;
  double total_us = 0, last_us = 0;
};

static bool is_name_of_kernels(std::string_view category) {
  return category == "kernel" || category == "Kernel";  // since 2022, and before
}

static Found read(ondemand::parser &parser, const padded_string &text) {
  Found found;
  ondemand::document document = parser.iterate(text);
  const bool is_list = document.type() == ondemand::json_type::array;  // as until 2020
  ondemand::array records = is_list ? document.get_array() : document["traceEvents"].get_array();
  for (ondemand::object record : records) {
    bool is_kernel = false;
    double duration_us = 0, start_us = 0;
    for (auto field : record) {
      const std::string_view key = field.unescaped_key();
      if (key == "cat") is_kernel = is_name_of_kernels(field.value());
      else if (key == "dur") duration_us = field.value().get_double();
      else if (key == "ts") start_us = field.value().get_double();
    }
    found.kernels += is_kernel;
    found.total_us += is_kernel ? duration_us : 0;
    found.last_us = start_us > found.last_us ? start_us : found.last_us;
  }
  return found;
}

template <typename Work> static void take_time(int times, Work work) {
  for (; times > 0; --times) {
    const auto start = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    std::printf("%.6f\n", took.count());
  }
}

int main(int count, char **arguments) try {
  if (count < 2) {
    std::printf("%d.%d.%d\n", SIMDJSON_VERSION_MAJOR, SIMDJSON_VERSION_MINOR,
                SIMDJSON_VERSION_REVISION);
    return 0;
  }
  ondemand::parser parser;
  const padded_string text = padded_string::load(arguments[1]);
  Found found = read(parser, text);
  if (count > 2) {
    dom::parser whole;
    take_time(std::atoi(arguments[2]), [&] { found = read(parser, text); });
    take_time(std::atoi(arguments[2]), [&] { whole.parse(text).value(); });
  }
  std::printf("{\"kernels\": %ld, \"kernel_ns\": %.0f, \"last_us\": %.3f}\n", found.kernels,
              1000 * found.total_us, found.last_us);
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
