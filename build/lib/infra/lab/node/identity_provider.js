// An OpenID provider (oidc-provider, certified) with accounts of a file: people log in at its page with any password,
// programs get JWT access tokens at its token endpoint.
//
//   node identity_provider.js settings.json
//
// settings: { port, clients: [as oidc-provider takes them], accounts: { login: claims }, audience }
'use strict'

const fs = require('fs')
const { Provider } = require('oidc-provider')

const settings = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'))
const issuer = `http://localhost:${settings.port}`
const claims = [...new Set(Object.values(settings.accounts).flatMap(Object.keys))]

const provider = new Provider(issuer, {
  clients: settings.clients,
  claims: { openid: ['sub', ...claims], email: [], profile: [] },
  conformIdTokenClaims: false,
  pkce: { required: () => false },
  async findAccount(context, login) {
    const found = settings.accounts[login]
    return found && { accountId: login, claims: async () => ({ sub: login, ...found }) }
  },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: (context, client, oneOf) => (client.grantTypes.includes('client_credentials') ? settings.audience : oneOf),
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({
        scope: 'read', audience: settings.audience, accessTokenFormat: 'jwt', accessTokenTTL: 3600,
        jwt: { sign: { alg: 'RS256' } }
      })
    }
  }
})
provider.listen(settings.port, '127.0.0.1')
process.stdin.on('end', () => process.exit(0)).resume()
