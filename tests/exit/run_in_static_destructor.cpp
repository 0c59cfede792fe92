// run() in a static destructor, after the event loop of the main thread has been destroyed: throws instead of using it.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <cubepi/core/error.hpp>
#include <cubepi/core/run.hpp>
#include <cubepi/core/task.hpp>

namespace {

/// Ends the process with a failure unless `function` throws Error(invalid_state).
template <class F>
void expect_refusal(const char* name, F function) {
    try {
        function();
    } catch (const cubepi::Error& error) {
        const std::string_view text = error.what();
        if (error.code() == cubepi::ErrorCode::invalid_state &&
            text.find("static destructor") != std::string_view::npos) {
            return;
        }
        std::fprintf(stderr, "%s threw: %s\n", name, error.what());
        std::_Exit(1);
    }
    std::fprintf(stderr, "%s did not throw\n", name);
    std::_Exit(1);
}

struct AtExit {
    ~AtExit() {
        expect_refusal("run", [] { cubepi::run(cubepi::yield_now()); });
        expect_refusal("this_thread_context", [] { (void)cubepi::this_thread_context(); });
    }
};

const AtExit at_exit;

}  // namespace

int main() {
    cubepi::run(cubepi::yield_now());
    return 0;
}
