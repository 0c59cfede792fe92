// A program that knows nothing of CubePi and loads the plugin twice.
#include <dlfcn.h>

#include <cstdio>

int main(int count, char** arguments) {
    for (int i = 0; i < 2; ++i) {
        void* plugin = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : nullptr;
        if (plugin == nullptr) {
            std::fprintf(stderr, "%s\n", count == 2 ? dlerror() : "usage: plugin_host PLUGIN");
            return 1;
        }
        auto ask =
            reinterpret_cast<int (*)(const char*, char*, unsigned)>(dlsym(plugin, "ask_agent"));
        char answer[100] = "";
        if (ask == nullptr || ask("host", answer, sizeof answer) != 0) return 1;
        std::puts(answer);
        dlclose(plugin);
    }
}
