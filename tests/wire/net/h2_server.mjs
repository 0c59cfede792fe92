// A TLS server for HTTP/2 and HTTP/1.1 on an ephemeral port of 127.0.0.1.
//   node h2_server.mjs KEY CERT
// prints {"port":N} and then one line of JSON per event. It exits at the end of its standard input.
import fs from 'node:fs';
import http2 from 'node:http2';

const say = (what) => process.stdout.write(JSON.stringify(what) + '\n');
const server = http2.createSecureServer({
    key: fs.readFileSync(process.argv[2]),
    cert: fs.readFileSync(process.argv[3]),
    allowHTTP1: true,
});

let sessions = 0;
const held = new Map();
server.on('session', (session) => {
    session.on('error', () => {});
    say({event: 'session', number: ++sessions});
});

server.on('stream', (stream, headers) => {
    const path = headers[':path'];
    stream.on('error', () => {});
    stream.on('close', () => say({event: 'close', path, code: stream.rstCode}));
    if (path.startsWith('/hold/')) {
        // Begins an answer; `GO path` on standard input ends it.
        stream.respond({':status': 200, 'content-type': 'text/event-stream'});
        stream.write('data: begun\n\n');
        held.set(path, stream);
        say({event: 'begun', path});
    } else if (path === '/silent') {
        say({event: 'begun', path});
    } else if (path === '/reset') {
        stream.respond({':status': 200});
        stream.write('partial', () => stream.destroy(new Error('broken')));
    } else if (path === '/cut') {
        stream.respond({':status': 200});
        stream.write('partial', () => stream.session.destroy());
    } else if (path === '/leave') {
        // Takes no more streams on this connection, and ends this one.
        stream.respond({':status': 200});
        stream.write('partial ', () => {
            stream.session.goaway(http2.constants.NGHTTP2_NO_ERROR, stream.id);
            stream.end('whole');
        });
    } else if (path === '/refuse') {
        stream.close(http2.constants.NGHTTP2_REFUSED_STREAM);
    } else if (path === '/big') {
        stream.respond({':status': 200});
        const piece = Buffer.alloc(64 * 1024, 'x');
        let left = 512;
        const more = () => {
            while (left-- > 0) if (!stream.write(piece)) return stream.once('drain', more);
            stream.end();
            say({event: 'sent', path});
        };
        more();
    } else {
        let size = 0;
        stream.on('data', (bytes) => { size += bytes.length; });
        stream.on('end', () => {
            stream.respond({':status': 200, 'content-type': 'text/plain'});
            stream.end(`${headers[':method']} ${path} ${size}`);
        });
    }
});

server.on('request', (request, response) => {
    if (request.httpVersion.startsWith('2')) return;
    response.end('over 1.1');
});

let input = '';
process.stdin.on('data', (text) => {
    input += text;
    for (let end; (end = input.indexOf('\n')) >= 0; input = input.slice(end + 1)) {
        const [word, path] = input.slice(0, end).split(' ');
        if (word === 'GO') held.get(path)?.end('data: done\n\n');
    }
});
process.stdin.on('end', () => process.exit(0));
server.listen(0, '127.0.0.1', () => say({port: server.address().port}));
