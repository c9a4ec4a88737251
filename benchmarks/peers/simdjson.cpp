// The limit of what a program can do that reads every record: counts kernels and adds up their
// durations with simdjson's on-demand parser, on one core, building nothing.
//
//     g++ -O3 -march=native simdjson.cpp -lsimdjson -o simdjson && ./simdjson TRACE
#include <cstdio>
#include <exception>
#include <simdjson.h>

using namespace simdjson;

static bool is_name_of_kernels(std::string_view category) {
  return category == "kernel" || category == "Kernel";  // since 2022, and before
}

int main(int count, char **arguments) try {
  if (count < 2) {
    std::printf("%d.%d.%d\n", SIMDJSON_VERSION_MAJOR, SIMDJSON_VERSION_MINOR,
                SIMDJSON_VERSION_REVISION);
    return 0;
  }
  ondemand::parser parser;
  const padded_string text = padded_string::load(arguments[1]);
  ondemand::document document = parser.iterate(text);
  long kernels = 0;
  double total_us = 0, last_us = 0;
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
    kernels += is_kernel;
    total_us += is_kernel ? duration_us : 0;
    last_us = start_us > last_us ? start_us : last_us;
  }
  std::printf("{\"kernels\": %ld, \"kernel_ns\": %.0f, \"last_us\": %.3f}\n", kernels,
              1000 * total_us, last_us);
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
