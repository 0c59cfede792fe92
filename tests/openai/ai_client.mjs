// Vercel's `ai` as a client of a gateway, by the provider of OpenAI (Responses) and that of compatible servers (Chat Completions).
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';
import { calls, check, model, start, token } from './gateway.mjs';

export const judge = async ({ program }) => {
  for (const name of ['openai', 'openai-compatible']) {
    const gateway = await start(program, ['One.', 'Two.', calls({ clock: { zone: 'UTC' } }), 'It is noon.', calls({ clock: {} }), 'Still noon.']);
    const settings = { name: 'gateway', baseURL: gateway.url, apiKey: token, includeUsage: true };
    const cubepi = name === 'openai' ? createOpenAI(settings)(model) : createOpenAICompatible(settings)(model);
    const title = `ai with @ai-sdk/${name}`;

    const answer = await generateText({ model: cubepi, system: 'Be brief.', prompt: 'hello' });
    check(`${title}: generateText`, answer.text === 'One.' && answer.usage.outputTokens > 0);
    const stream = streamText({ model: cubepi, prompt: 'hello' });
    let text = '';
    for await (const piece of stream.textStream) text += piece;
    check(`${title}: streamText`, text === 'Two.' && (await stream.usage).outputTokens > 0);

    let asked = [];
    const tools = {
      clock: tool({
        description: 'Tells the time.',
        inputSchema: z.object({ zone: z.string().optional() }),
        execute: ({ zone }) => {
          asked.push(zone);
          return 'noon';
        },
      }),
    };
    const stopWhen = stepCountIs(4);
    const told = await generateText({ model: cubepi, prompt: 'time?', tools, stopWhen });
    check(`${title}: tools`, told.text === 'It is noon.' && told.steps.length === 2 && asked.join() === 'UTC');
    asked = [];
    const streamed = streamText({ model: cubepi, prompt: 'time?', tools, stopWhen });
    text = '';
    for await (const piece of streamed.textStream) text += piece;
    check(`${title}: tools, streamed`, text === 'Still noon.' && asked.length === 1);
    await gateway.stop(title);
  }
};
