package org.apache.zookeeper.client;

import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;

/**
 * In place of ZooKeeper 3.4's own, which takes the address out of InetSocketAddress.toString() and so finds none on Java
 * 14 and later (ZOOKEEPER-3779). The servers one after the other; a pause when all were tried.
 */
public final class StaticHostProvider implements HostProvider {
    private final List<InetSocketAddress> servers;
    private int next = 0;

    public StaticHostProvider(Collection<InetSocketAddress> servers) {
        this.servers = new ArrayList<>(servers);
    }

    @Override
    public int size() {
        return servers.size();
    }

    @Override
    public InetSocketAddress next(long spinDelay) {
        if (next >= servers.size()) {
            next = 0;
            pause(spinDelay);
        }
        InetSocketAddress server = servers.get(next++);
        return new InetSocketAddress(server.getHostString(), server.getPort());
    }

    @Override
    public void onConnected() {
        next = 1;
    }

    private static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
