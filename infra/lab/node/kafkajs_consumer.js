// A kafkajs consumer that writes down what its instrumentation shows, like the rebalance callbacks of TruthConsumer.java.
//
//   node kafkajs_consumer.js consumer.properties topic,topic truth.jsonl
//
// Commands on standard input: `close`, `stall MS` (the next record's handler takes that long, without a heartbeat),
// `delay MS` (per record), `pause` and `resume` (all topics). End of input and SIGTERM close, too. kafkajs has no
// rebalance callbacks: `revoked` is the moment it notices the rebalance, `lost` the one it learns that the group goes
// on without it. Its join event does not say the generation, its first heartbeat does: `in_generation`.
// `lab.assigner.name`: the name of its assigner, where others of the group know it by theirs.
'use strict'

const fs = require('fs')
const path = require('path')
const readline = require('readline')
const { Kafka, logLevel, PartitionAssigners } = require('kafkajs')

const [settingsFile, topicList, truthFile] = process.argv.slice(2)
const settings = readProperties(fs.readFileSync(settingsFile, 'utf8'))
const topics = topicList.split(',')
const name = path.basename(truthFile, '.jsonl')
const group = settings['group.id']
let memberId = null
let generation = null
let held = new Set()
let awaiting = new Set()
let stallMs = 0
let delayMs = 0
let isClosing = false

function write(event, more = {}) {
  const line = { at_ms: Date.now(), client: name, event, ...more }
  fs.appendFileSync(truthFile, JSON.stringify(line) + '\n')
}

function saw(what, partitions) {
  const more = { partitions: [...partitions].sort(), group, member_id: memberId }
  write(`${what}_start`, more)
  held = new Set(what === 'assigned' ? partitions : [])
  awaiting = new Set(held)
  write(`${what}_end`, more)
}

const logger = () => ({ log }) => {
  process.stdout.write(JSON.stringify(log) + '\n')
  if (log.message.startsWith('The coordinator is not aware of this member') && held.size > 0) saw('lost', held)
}

const kafka = new Kafka({
  clientId: settings['client.id'],
  brokers: settings['bootstrap.servers'].split(','),
  logLevel: logLevel.INFO,
  logCreator: logger,
})
const consumer = kafka.consumer({
  groupId: group,
  sessionTimeout: Number(settings['session.timeout.ms'] || 10000),
  heartbeatInterval: Number(settings['heartbeat.interval.ms'] || 3000),
  rebalanceTimeout: Number(settings['rebalance.timeout.ms'] || 60000),
  maxWaitTimeInMs: 500,
  partitionAssigners: [namedRoundRobin(settings['lab.assigner.name'])],
})

consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
  memberId = payload.memberId
  generation = null
  const given = Object.entries(payload.memberAssignment)
  saw('assigned', given.flatMap(([topic, numbers]) => numbers.map(number => `${topic}-${number}`)))
})
consumer.on(consumer.events.REBALANCING, () => {
  if (held.size > 0) saw('revoked', held)
})
consumer.on(consumer.events.HEARTBEAT, ({ payload }) => {
  if (payload.memberId !== memberId || payload.groupGenerationId === generation) return
  generation = payload.groupGenerationId
  write('in_generation', { group, member_id: memberId, generation })
})
consumer.on(consumer.events.CRASH, ({ payload }) => {
  write('crashed', { error: payload.error.message, restart: payload.restart })
  if (held.size > 0) saw('lost', held)
})

// Its own assigner, under the name that other libraries know, if one is given: else they share no protocol.
function namedRoundRobin(name) {
  return cluster => {
    const assigner = PartitionAssigners.roundRobin(cluster)
    if (!name) return assigner
    return {
      ...assigner,
      name: name,
      protocol: topics => ({ ...assigner.protocol(topics), name: name }),
    }
  }
}

async function handle({ topic, partition }) {
  const partitionName = `${topic}-${partition}`
  if (awaiting.delete(partitionName)) {
    write('first_record', { partitions: [partitionName], group, member_id: memberId })
  }
  if (stallMs > 0) {
    const ms = stallMs
    stallMs = 0
    write('stall_start', { stall_ms: ms, partitions: [partitionName] })
    await sleep(ms)
    write('stall_end')
  }
  if (delayMs > 0) await sleep(delayMs)
}

async function close() {
  if (isClosing) return
  isClosing = true
  write('close_start')
  if (held.size > 0) saw('revoked', held)
  await consumer.disconnect()
  write('closed')
  process.exit(0)
}

function readCommands() {
  const lines = readline.createInterface({ input: process.stdin })
  lines.on('line', line => {
    const [word, rest] = line.trim().split(' ')
    if (word === 'close') close()
    else if (word === 'stall') stallMs = Number(rest)
    else if (word === 'delay') delayMs = Number(rest)
    else if (word === 'pause' || word === 'resume') pauseOrResume(word)
    else write('unknown_command', { command: line })
  })
  lines.on('close', close)
}

function pauseOrResume(word) {
  if (word === 'pause') write('stall_start')
  consumer[word](topics.map(topic => ({ topic })))
  if (word === 'resume') write('stall_end')
}

function sleep(ms) {
  return new Promise(resolve => setTimeout(resolve, ms))
}

// The plain subset that the lab itself writes: `name=value` lines with doubled backslashes.
function readProperties(text) {
  const pairs = text.split('\n').filter(line => line.includes('='))
  return Object.fromEntries(
    pairs.map(line => {
      const at = line.indexOf('=')
      return [line.slice(0, at), line.slice(at + 1).replace(/\\(.)/g, (_, c) => (c === 'n' ? '\n' : c))]
    }),
  )
}

async function main() {
  readCommands()
  process.on('SIGTERM', close)
  write('started', { topics })
  await consumer.connect()
  await consumer.subscribe({ topics, fromBeginning: true })
  await consumer.run({ eachMessage: handle })
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})
