#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <cubepi/schema/python_json.hpp>

#include "compare.hpp"
#include "kinds.hpp"
#include "support.hpp"

// conformance_runner SCENARIO.json                       prints the result
// conformance_runner --check FILE.json...                compares with the expectations of the files
// conformance_runner --keep FILE.sqlite SCENARIO.json    the same on a SQLite file, which stays
// conformance_runner --trace DIRECTORY SCENARIO.json     runs the scenario, or that of a trace case, and keeps its traces
//
// Exit status: 0 success, 1 differences, 2 a file that cannot be read or a wrong command line.

namespace {

using conformance::BadFile;
using conformance::Json;
using conformance::Unsupported;

Json read_file(const std::string& name) {
    std::ifstream in(name, std::ios::binary);
    if (!in) throw BadFile("cannot be opened");
    std::ostringstream text;
    text << in.rdbuf();
    try {
        return cubepi::parse_lenient(text.str());
    } catch (const std::exception& error) {
        throw BadFile(error.what());
    }
}

std::string kind_of(const Json& file) {
    return conformance::text_or(conformance::as_object(file, "file"), "kind", "scenario");
}

std::vector<std::string> check_scenario(const Json& file) {
    const conformance::Scenario scenario = conformance::parse_scenario(file);
    Json got = conformance::play(scenario);
    Json want = scenario.expect;
    conformance::blank_out(got, scenario.ignore);
    conformance::blank_out(want, scenario.ignore);
    return conformance::differences(want, got);
}

std::vector<std::string> check(const std::string& name) {
    const Json file = read_file(name);
    const std::string kind = kind_of(file);
    if (kind == "scenario") return check_scenario(file);
    if (kind == "database") return conformance::check_database(name, file);
    if (kind == "wire") return conformance::check_wire(file);
    if (kind == "turn") return conformance::check_turn(file);
    if (kind == "tape") return conformance::check_tape(file);
    if (kind == "trace") return conformance::check_trace(file);
    throw Unsupported(kind);
}

/// The status of one file, with its differences on stdout.
int report(const std::string& name) {
    try {
        const std::vector<std::string> found = check(name);
        for (const std::string& difference : found) std::cout << name << ": " << difference << '\n';
        return found.empty() ? 0 : 1;
    } catch (const BadFile& error) {
        std::cout << name << ": cannot be read: " << error.what() << '\n';
        return 2;
    } catch (const std::exception& error) {
        std::cout << name << ": " << error.what() << '\n';
        return 1;
    }
}

int check_all(const std::vector<std::string>& names) {
    int status = 0;
    std::size_t passed = 0;
    for (const std::string& name : names) {
        const int one = report(name);
        std::cout << std::flush;
        if (one == 0) ++passed;
        status = std::max(status, one);
    }
    std::cerr << passed << " of " << names.size() << " hold\n";
    return status;
}

int write_traces(const std::string& name, const std::string& directory) {
    try {
        conformance::play_trace(read_file(name), directory);
        return 0;
    } catch (const BadFile& error) {
        std::cerr << name << ": cannot be read: " << error.what() << '\n';
        return 2;
    } catch (const std::exception& error) {
        std::cerr << name << ": " << error.what() << '\n';
        return 1;
    }
}

int print_result(const std::string& name, const std::string& keep) {
    try {
        const Json file = read_file(name);
        const std::string kind = kind_of(file);
        if (kind == "turn" || kind == "tape") {
            const Json result =
                kind == "turn" ? conformance::play_turn(file) : conformance::play_tape(file);
            std::cout << boost::json::serialize(result) << '\n';
            return 0;
        }
        if (kind_of(file) != "scenario") throw Unsupported(kind_of(file) + " without --check");
        conformance::PlayOptions options;
        options.keep = keep;
        const Json result =
            conformance::play(conformance::parse_scenario(file), std::move(options));
        std::cout << boost::json::serialize(result) << '\n';
        return 0;
    } catch (const BadFile& error) {
        std::cerr << name << ": cannot be read: " << error.what() << '\n';
        return 2;
    } catch (const std::exception& error) {
        std::cerr << name << ": " << error.what() << '\n';
        return 1;
    }
}

int usage() {
    std::cerr << "usage: conformance_runner SCENARIO.json\n"
                 "       conformance_runner --check FILE.json...\n"
                 "       conformance_runner --keep FILE.sqlite SCENARIO.json\n"
                 "       conformance_runner --trace DIRECTORY SCENARIO.json\n";
    return 2;
}

}  // namespace

int main(int argc, char** argv) {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    if (arguments.empty()) return usage();
    const std::string& first = arguments.front();
    if (first == "--check" && arguments.size() >= 2)
        return check_all({arguments.begin() + 1, arguments.end()});
    if (first == "--keep" && arguments.size() == 3) return print_result(arguments[2], arguments[1]);
    if (first == "--trace" && arguments.size() == 3)
        return write_traces(arguments[2], arguments[1]);
    if (first.starts_with("--") || arguments.size() != 1) return usage();
    return print_result(first, {});
}
