#include <cubepi/tracing/recorder/resource_of.hpp>

#include <utility>

namespace cubepi::detail {

namespace {

/// A random UUID, version 4.
std::string random_uuid() {
    TraceId id = TraceId::random();
    id.bytes[6] = static_cast<std::uint8_t>((id.bytes[6] & 0x0fU) | 0x40U);
    id.bytes[8] = static_cast<std::uint8_t>((id.bytes[8] & 0x3fU) | 0x80U);
    std::string text = id.hex();
    for (const std::size_t at : {20U, 16U, 12U, 8U}) text.insert(at, 1, '-');
    return text;
}

}  // namespace

Resource resource_of(const TracerOptions& options) {
    Resource resource;
    resource.attributes = options.resource_attributes;
    const auto set = [&resource](AttributeKey key, const std::string& value) {
        if (!value.empty()) resource.attributes.set(std::move(key), SharedString(value));
    };
    set("telemetry.sdk.language", "cpp");
    set("telemetry.sdk.name", "cubepi");
    set("telemetry.sdk.version", CUBEPI_VERSION);
    set("service.instance.id", options.service_instance_id);
    set("service.name", options.service_name);
    set("service.namespace", options.service_namespace);
    set("service.version", options.service_version);
    set("deployment.environment.name", options.deployment_environment);
    set("gen_ai.agent.name", options.agent_name);
    set("gen_ai.agent.id", options.agent_id);
    set("gen_ai.agent.description", options.agent_description);
    set("gen_ai.agent.version", options.agent_version);
    const Attributes& all = resource.attributes;
    if (!all.find("service.instance.id")) set("service.instance.id", random_uuid());
    if (!all.find("service.name")) set("service.name", "unknown_service");
    return resource;
}

}  // namespace cubepi::detail
