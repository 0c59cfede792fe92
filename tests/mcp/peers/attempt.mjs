// The attempts of a client of either TypeScript SDK; see run_peers.py.
const text = (result) => result.content.map((block) => block.text ?? '').join(' ');

function need(holds, seen) {
    if (!holds) throw new Error(JSON.stringify(seen)?.slice(0, 300));
}

/** The answer to a form of the server. */
export function answer(params) {
    const content = {};
    for (const [name, schema] of Object.entries(params.requestedSchema?.properties ?? {})) {
        const values = schema.enum ?? schema.oneOf?.map((one) => one.const);
        content[name] = name === 'name' ? 'Ann' : (values?.[0] ?? schema.type === 'boolean');
    }
    return { action: 'accept', content };
}

/** Options of requests with a token, if there is one. */
export function headers(token) {
    return token ? { headers: { Authorization: `Bearer ${token}` } } : undefined;
}

/** `call(name, arguments, options)` is the function of the SDK's client. */
export async function attempt(client, plan, call) {
    const results = {};
    const step = (feature, options) => call(plan[feature][0], plan[feature][1], options);
    const features = {
        async list() {
            need((await client.listTools()).tools.length > 0);
        },
        async call() {
            const result = await step('call');
            need(!result.isError && text(result).includes(plan.call[2]), result);
        },
        async error() {
            need((await step('error')).isError);
            try {
                need((await call('no_such_tool', {})).isError);
            } catch (error) {
                if (!String(error).includes('no_such_tool')) throw error;
            }
        },
        async progress() {
            const seen = [];
            await step('progress', { onprogress: (report) => seen.push(report) });
            // These SDKs handle messages asynchronously, and drop a report whose call has ended meanwhile.
            need(seen.length >= 1, seen);
        },
        async resources() {
            need((await client.listResources()).resources.length > 0);
            need((await client.readResource({ uri: plan.resources })).contents.length > 0);
        },
        async prompts() {
            need((await client.listPrompts()).prompts.length > 0);
            need((await client.getPrompt({ name: plan.prompts[0], arguments: plan.prompts[1] })).messages.length > 0);
        },
        async elicitation() {
            const result = await step('elicitation');
            need(!result.isError && text(result).includes(plan.elicitation[2]), result);
        },
        async cancellation() {
            const abort = new AbortController();
            const waiting = step('cancellation', { signal: abort.signal }).catch(() => {});
            await new Promise((resolve) => setTimeout(resolve, 300));
            abort.abort('given up');
            await waiting;
            for (let i = 0; i < 50; ++i) {
                if (text(await call(plan.cancellation[2], {})).includes('yes')) return;
                await new Promise((resolve) => setTimeout(resolve, 50));
            }
            throw new Error('the server has not noticed');
        }
    };
    for (const [feature, run] of Object.entries(features)) {
        if (!(feature in plan)) continue;
        const late = new Promise((_, reject) => setTimeout(() => reject(new Error('no answer within 10 s')), 10000).unref());
        results[feature] = await Promise.race([run(), late]).then(
            () => 'ok',
            (error) => String(error).slice(0, 300)
        );
    }
    return results;
}
